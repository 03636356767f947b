"""Schema changes as values, which are also requests of the control API, distinguished by `op`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, WithJsonSchema

from doors.tables.sqlite.catalog import Column
from doors.tables.types.registry import TYPES, TypeName


def _known_type(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"type {name} does not exist; available: {', '.join(TYPES)}")
    return name


KnownType = Annotated[
    TypeName, AfterValidator(_known_type), WithJsonSchema({"type": "string", "enum": list(TYPES)})
]


class _ChangeModel:
    """A change without nested values: pydantic parses it from JSON with exactly these members."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(
        extra="forbid", json_schema_extra=lambda schema: schema["required"].append("op")
    )


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create a table. Its key is the columns with `primary_key`, in their order."""

    table: str
    columns: Sequence[Column]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RenameTable(_ChangeModel):
    """Rename a table, and update the views, triggers and foreign keys that use it."""

    table: str
    name: str
    op: Literal["rename-table"] = "rename-table"


@dataclass(frozen=True, slots=True)
class DropTable(_ChangeModel):
    """Drop a table and its rows."""

    table: str
    op: Literal["drop-table"] = "drop-table"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column at the end. Existing rows get its default.

    An integer primary key, for a table without a key, gets the rowids.
    """

    table: str
    column: Column


@dataclass(frozen=True, slots=True)
class RenameColumn(_ChangeModel):
    """Rename a column, and update the indexes, views, triggers and foreign keys that use it."""

    table: str
    column: str
    name: str
    op: Literal["rename-column"] = "rename-column"


@dataclass(frozen=True, slots=True)
class RetypeColumn(_ChangeModel):
    """Convert a column and all its values to another type, or change nothing."""

    table: str
    column: str
    type: KnownType
    op: Literal["retype-column"] = "retype-column"


@dataclass(frozen=True, slots=True)
class DropColumn(_ChangeModel):
    """Drop a column and its values."""

    table: str
    column: str
    op: Literal["drop-column"] = "drop-column"


@dataclass(frozen=True, slots=True)
class SetNullable(_ChangeModel):
    """Allow or refuse null in a column."""

    table: str
    column: str
    nullable: StrictBool
    op: Literal["set-nullable"] = "set-nullable"


@dataclass(frozen=True, slots=True)
class SetDefault(_ChangeModel):
    """Set the default of a column: `now()` or an SQL literal (`0`, `'open'`, `true`). None drops it."""

    table: str
    column: str
    default: str | None
    op: Literal["set-default"] = "set-default"


@dataclass(frozen=True, slots=True)
class SetUnique(_ChangeModel):
    """Refuse or allow duplicates in a column."""

    table: str
    column: str
    unique: StrictBool
    op: Literal["set-unique"] = "set-unique"


@dataclass(frozen=True, slots=True)
class SetPrimaryKey(_ChangeModel):
    """Set the primary key to columns in this order. An empty tuple drops it."""

    table: str
    columns: Sequence[str]
    op: Literal["set-primary-key"] = "set-primary-key"


@dataclass(frozen=True, slots=True)
class SetNote(_ChangeModel):
    """Set the note on a column, or on the table if `column` is empty. An empty note deletes it."""

    table: str
    column: Annotated[str, Field(default="")]
    note: str
    op: Literal["set-note"] = "set-note"


@dataclass(frozen=True, slots=True)
class CreateIndex(_ChangeModel):
    """Create an index. The default name is made of the table and its columns."""

    table: str
    columns: Sequence[str]
    unique: StrictBool = False
    name: str = ""
    op: Literal["create-index"] = "create-index"


@dataclass(frozen=True, slots=True)
class DropIndex(_ChangeModel):
    """Drop an index."""

    name: str
    op: Literal["drop-index"] = "drop-index"


RequestChange = (
    RenameTable
    | DropTable
    | RenameColumn
    | RetypeColumn
    | DropColumn
    | SetNullable
    | SetDefault
    | SetUnique
    | SetPrimaryKey
    | SetNote
    | CreateIndex
    | DropIndex
)
Change = CreateTable | AddColumn | RequestChange
