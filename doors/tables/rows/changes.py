"""Row changes with optimistic concurrency control, and their outcome, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Cells = list[Any]
"""Cells (`doors/tables/types/grid_cell.py`) in the order of columns."""
RowCells = dict[str, Any]
"""The cells of a row by the names of columns."""
Key = Mapping[str, Any] | Sequence[Any]
"""The key of a row: the cells of the table's key columns, by name or in their order."""
Reason = Literal["changed", "deleted"]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row. Missing columns get their defaults."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """New values of a row, if it still has the values `expected` that the client has read."""

    key: Key
    expected: Mapping[str, Any]
    set: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a row, if it still has the values that the client has read."""

    key: Key
    expected: Mapping[str, Any]


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class RowConflict:
    """The index of a change whose row others have changed or deleted.

    `columns` are the changed ones; `current` is the current row, None if it is deleted.
    """

    index: int
    reason: Reason
    columns: list[str]
    current: RowCells | None


@dataclass(frozen=True, slots=True)
class Mistake:
    """The index of an invalid change; None if the changes are invalid only together.

    `constraint` is the violated constraint in the Door's terms, or empty. `column` is the one at fault,
    None if it is not exactly one.
    """

    index: int | None
    column: str | None
    constraint: str
    message: str


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row after its change; `row` is None if it was deleted."""

    index: int
    key: Cells
    row: RowCells | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a list of changes. With errors, nothing was changed.

    `applied` counts the changes. `inserted` has the keys of new rows, in the order of their changes; `rows`
    has every changed row as it is after all changes.
    """

    applied: int
    conflicts: list[RowConflict]
    errors: list[Mistake]
    inserted: list[Cells]
    rows: list[ChangedRow]
