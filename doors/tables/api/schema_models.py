"""Request models of schema changes: each an object with `op`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from doors.tables.schema import change
from doors.tables.sqlite import catalog
from doors.tables.types.registry import TYPES
from engine.control.schema import StrictModel


def _known_type(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"type {name} does not exist; available: {', '.join(TYPES)}")
    return name


TypeName = Annotated[
    str, AfterValidator(_known_type), WithJsonSchema({"type": "string", "enum": list(TYPES)})
]


class NewColumn(StrictModel):
    """A new column. `default` is an SQL literal, or `now()`."""

    name: str
    type: TypeName
    nullable: bool = True
    default: str | None = None
    primary_key: bool = False
    unique: bool = False
    note: str = ""

    def column(self) -> catalog.Column:
        """Return it as a value."""
        return catalog.Column(**self.model_dump())


class CreateTable(StrictModel):
    """Create a table; its key is the columns with `primary_key`, in their order."""

    op: Literal["create-table"]
    table: str
    columns: list[NewColumn]
    note: str = ""

    def value(self) -> change.Change:
        """Return the change."""
        return change.CreateTable(self.table, tuple(each.column() for each in self.columns), self.note)


class AddColumn(StrictModel):
    """Add a column at the end."""

    op: Literal["add-column"]
    table: str
    column: NewColumn

    def value(self) -> change.Change:
        """Return the change."""
        return change.AddColumn(self.table, self.column.column())


class _Plain(StrictModel):
    """A change with the fields of its value."""

    def value(self) -> change.Change:
        """Return the change."""
        kind: type[change.Change] = getattr(change, type(self).__name__)
        members = self.model_dump(exclude={"op"})
        if "columns" in members:
            members["columns"] = tuple(members["columns"])
        return kind(**members)


class RenameTable(_Plain):
    """Rename a table."""

    op: Literal["rename-table"]
    table: str
    name: str


class DropTable(_Plain):
    """Drop a table and its rows."""

    op: Literal["drop-table"]
    table: str


class RenameColumn(_Plain):
    """Rename a column."""

    op: Literal["rename-column"]
    table: str
    column: str
    name: str


class RetypeColumn(_Plain):
    """Convert a column and its values to another type."""

    op: Literal["retype-column"]
    table: str
    column: str
    type: TypeName


class DropColumn(_Plain):
    """Drop a column and its values."""

    op: Literal["drop-column"]
    table: str
    column: str


class SetNullable(_Plain):
    """Allow or refuse null in a column."""

    op: Literal["set-nullable"]
    table: str
    column: str
    nullable: bool


class SetDefault(_Plain):
    """Set the default of a column: an SQL literal or `now()`; null drops it."""

    op: Literal["set-default"]
    table: str
    column: str
    default: str | None


class SetUnique(_Plain):
    """Refuse or allow duplicates in a column."""

    op: Literal["set-unique"]
    table: str
    column: str
    unique: bool


class SetPrimaryKey(_Plain):
    """Set the primary key to columns in this order; an empty list drops it."""

    op: Literal["set-primary-key"]
    table: str
    columns: list[str]


class SetNote(_Plain):
    """Set the note on a column, or on the table if `column` is empty; an empty note deletes it."""

    op: Literal["set-note"]
    table: str
    column: str = ""
    note: str


class CreateIndex(_Plain):
    """Create an index. The default name is made of the table and its columns."""

    op: Literal["create-index"]
    table: str
    columns: list[str]
    unique: bool = False
    name: str = ""


class DropIndex(_Plain):
    """Drop an index."""

    op: Literal["drop-index"]
    name: str


AnyChange = Annotated[
    CreateTable
    | RenameTable
    | DropTable
    | AddColumn
    | RenameColumn
    | RetypeColumn
    | DropColumn
    | SetNullable
    | SetDefault
    | SetUnique
    | SetPrimaryKey
    | SetNote
    | CreateIndex
    | DropIndex,
    Field(discriminator="op"),
]


class Changes(StrictModel):
    """Changes that are applied in order in one transaction."""

    changes: list[AnyChange] = Field(min_length=1, max_length=1000)
