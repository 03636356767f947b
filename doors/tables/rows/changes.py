"""Changes of many rows at once, by somebody who saw them before: what they are, and what came of them.

Values, and no more; `changeset.py` makes the changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Cells = list[Any]
"""Cells in the order of columns; see `cells.py` for what one is."""
RowCells = dict[str, Any]
"""The cells of a row by the names of columns."""
Key = Mapping[str, Any] | Sequence[Any]
"""Which row: the cells of the table's key, by name or in its order."""
Reason = Literal["changed", "gone"]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row. A column that is left out gets its default."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """New values of a row, if it still has those that somebody saw: `was`."""

    key: Key
    was: Mapping[str, Any]
    set: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """The end of a row, if it still has the values that somebody saw."""

    key: Key
    was: Mapping[str, Any]


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Conflict:
    """A change, by its place in the list, of a row that somebody else changed or took away meanwhile.

    `columns` are those that are not as they were; `now` is the row, None where it is gone.
    """

    index: int
    reason: Reason
    columns: list[str]
    now: RowCells | None


@dataclass(frozen=True, slots=True)
class Mistake:
    """A change that cannot be made, by its place in the list; None where all of them together cannot be.

    `constraint` is the kind of rule that it breaks, as the Door names them, or empty. `column` is the one to
    look at, None where it is none, or more than one.
    """

    index: int | None
    column: str | None
    constraint: str
    message: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A row as it is after its change; `row` is None where it was deleted."""

    index: int
    key: Cells
    row: RowCells | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a list of changes. Where there are errors, nothing was changed.

    `applied` counts the changes that were made. `inserted` has the keys of new rows, in the order of their
    changes; `rows` has every row that was changed, after the last of them.
    """

    applied: int
    conflicts: list[Conflict]
    errors: list[Mistake]
    inserted: list[Cells]
    rows: list[Changed]
