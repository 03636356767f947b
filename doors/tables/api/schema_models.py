"""Changes of the schema as the control API takes them: each an object with `op`."""

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
    """A column to be made. `default` is an SQL literal, or `now()`."""

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
    """Make a table; its key is the columns with `primary_key`, in their order."""

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
    """A change whose members are those of its value."""

    def value(self) -> change.Change:
        """Return the change."""
        kind: type[change.Change] = getattr(change, type(self).__name__)
        members = self.model_dump(exclude={"op"})
        if "columns" in members:
            members["columns"] = tuple(members["columns"])
        return kind(**members)


class RenameTable(_Plain):
    """Give a table another name."""

    op: Literal["rename-table"]
    table: str
    name: str


class DropTable(_Plain):
    """Remove a table and its rows."""

    op: Literal["drop-table"]
    table: str


class RenameColumn(_Plain):
    """Give a column another name."""

    op: Literal["rename-column"]
    table: str
    column: str
    name: str


class RetypeColumn(_Plain):
    """Give a column another type, and every value of it."""

    op: Literal["retype-column"]
    table: str
    column: str
    type: TypeName


class DropColumn(_Plain):
    """Remove a column and its values."""

    op: Literal["drop-column"]
    table: str
    column: str


class SetNullable(_Plain):
    """Say whether a column may have no value."""

    op: Literal["set-nullable"]
    table: str
    column: str
    nullable: bool


class SetDefault(_Plain):
    """Set what new rows get: an SQL literal or `now()`; null takes it away."""

    op: Literal["set-default"]
    table: str
    column: str
    default: str | None


class SetUnique(_Plain):
    """Say whether no two rows may have the same value in a column."""

    op: Literal["set-unique"]
    table: str
    column: str
    unique: bool


class SetPrimaryKey(_Plain):
    """Make columns the key, in this order; none takes the key away."""

    op: Literal["set-primary-key"]
    table: str
    columns: list[str]


class SetNote(_Plain):
    """Write a note on a column, or on the table where `column` is empty; an empty note takes it away."""

    op: Literal["set-note"]
    table: str
    column: str = ""
    note: str


class CreateIndex(_Plain):
    """Make an index; without a name it is called after its table and columns."""

    op: Literal["create-index"]
    table: str
    columns: list[str]
    unique: bool = False
    name: str = ""


class DropIndex(_Plain):
    """Remove an index."""

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
    """A list of changes that happen in one transaction, each seeing those before it."""

    changes: list[AnyChange] = Field(min_length=1, max_length=1000)
