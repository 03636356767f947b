"""Request models of schema changes: each an object with `op`."""

from typing import Annotated, Literal

from pydantic import Field

from doors.tables.schema import change
from doors.tables.schema.change import KnownType
from doors.tables.sqlite import catalog
from engine.control.schema import StrictModel


class NewColumn(StrictModel):
    """A new column. `default` is an SQL literal, or `now()`."""

    name: str
    type: KnownType
    nullable: bool = True
    default: str | None = None
    primary_key: bool = False
    unique: bool = False
    note: str = ""

    def column(self) -> catalog.Column:
        """Return the column as a value."""
        return catalog.Column(**self.model_dump())


class CreateTableModel(StrictModel):
    """Create a table; its key is the columns with `primary_key`, in their order."""

    op: Literal["create-table"]
    table: str
    columns: list[NewColumn]
    note: str = ""

    def value(self) -> change.Change:
        """Return the change."""
        return change.CreateTable(self.table, [each.column() for each in self.columns], self.note)


class AddColumnModel(StrictModel):
    """Add a column at the end."""

    op: Literal["add-column"]
    table: str
    column: NewColumn

    def value(self) -> change.Change:
        """Return the change."""
        return change.AddColumn(self.table, self.column.column())


class Changes(StrictModel):
    """Changes that are applied in order in one transaction."""

    changes: list[
        Annotated[CreateTableModel | AddColumnModel | change.RequestChange, Field(discriminator="op")]
    ] = Field(min_length=1, max_length=1000)

    def values(self) -> list[change.Change]:
        """Return the changes as values."""
        return [each.value() if isinstance(each, StrictModel) else each for each in self.changes]
