"""Schema changes as values."""

from dataclasses import dataclass

from doors.tables.sqlite.catalog import Column
from doors.tables.types.registry import TypeName


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create a table. Its key is the columns with `primary_key`, in their order."""

    table: str
    columns: tuple[Column, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Rename a table, and update the views, triggers and foreign keys that use it."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drop a table and its rows."""

    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column at the end. Existing rows get its default.

    An integer primary key, for a table without a key, gets the rowids.
    """

    table: str
    column: Column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column, and update the indexes, views, triggers and foreign keys that use it."""

    table: str
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class RetypeColumn:
    """Convert a column and all its values to another type, or change nothing."""

    table: str
    column: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column and its values."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Allow or refuse null in a column."""

    table: str
    column: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set the default of a column: `now()` or an SQL literal (`0`, `'open'`, `true`). None drops it."""

    table: str
    column: str
    default: str | None


@dataclass(frozen=True, slots=True)
class SetUnique:
    """Refuse or allow duplicates in a column."""

    table: str
    column: str
    unique: bool


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """Set the primary key to columns in this order. An empty tuple drops it."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetNote:
    """Set the note on a column, or on the table if `column` is empty. An empty note deletes it."""

    table: str
    column: str
    note: str


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Create an index. The default name is made of the table and its columns."""

    table: str
    columns: tuple[str, ...]
    unique: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Drop an index."""

    name: str


Change = (
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
    | DropIndex
)
