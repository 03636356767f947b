"""The changes that a schema can go through, as values: what the command line and the Console ask for."""

from dataclasses import dataclass

from doors.tables.sqlite.catalog import Column
from doors.tables.types.registry import TypeName


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Make a table. Its key is the columns with `primary_key`, in their order."""

    table: str
    columns: tuple[Column, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Give a table another name; views, triggers and foreign keys follow."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class DropTable:
    """Remove a table and its rows."""

    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column at the end; rows that there are get its default.

    The key of a table without one, if it is an integer, gets the numbers that the rows have.
    """

    table: str
    column: Column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name; indexes, views, triggers and foreign keys follow."""

    table: str
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class RetypeColumn:
    """Give a column another type; every value becomes one of that type, or nothing is changed."""

    table: str
    column: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Remove a column and its values."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Say whether a column may have no value."""

    table: str
    column: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set what new rows get: `now()` or an SQL literal (`0`, `'open'`, `true`); None takes it away."""

    table: str
    column: str
    default: str | None


@dataclass(frozen=True, slots=True)
class SetUnique:
    """Say whether no two rows may have the same value in a column."""

    table: str
    column: str
    unique: bool


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """Make columns the key, in this order; none takes the key away."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetNote:
    """Write a note on a column, or on the table where `column` is empty; an empty note takes it away."""

    table: str
    column: str
    note: str


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Make an index. Without a `name` it is called after its table and columns."""

    table: str
    columns: tuple[str, ...]
    unique: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Remove an index."""

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
