"""Conversion of a pasted spreadsheet range into cells of a table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from screens.tables.cells import read
from screens.tables.grid import TableColumn
from svc_tui.client import SvcError

MAX_ROWS = 10_000
"""Rows of a range; more are for an import, which holds none of them in memory."""
Texts = Sequence[Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class PastedRange:
    """A pasted range: its column names, its rows as text, and whether the names are its first row."""

    names: tuple[str, ...]
    rows: Texts
    header: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "PastedRange":
        """Return the range of an answer to `POST /import/preview?format=tsv`. Raises `SvcError`."""
        if told["count"] > MAX_ROWS:
            raise SvcError(
                f"{told['count']:,} rows were pasted, and {MAX_ROWS:,} can be",
                "Save them as a file and import that: i.",
            )
        return cls(tuple(each["name"] for each in told["columns"]), told["rows"], told["header"])


def targets(pasted: PastedRange, columns: Sequence[TableColumn], first: int) -> list[TableColumn | None]:
    """Return which column of the table each pasted one goes to; None where there is none.

    Names of the table's own columns say it; without them it is one after another, from number `first` on.
    """
    if pasted.header:
        named = {column.name.lower(): column for column in columns}
        found = [named.get(name.lower()) for name in pasted.names]
        if any(found):
            return [column if column and not column.generated else None for column in found]
    free = [column for column in columns[first:] if not column.generated]
    return [*free, *[None] * len(pasted.names)][: len(pasted.names)]


def cells(pasted: PastedRange, to: Sequence[TableColumn | None]) -> list[dict[str, Any]]:
    """Return the rows as cells by column. Raises `SvcError` for the first that its column does not take.

    Where there is no text there is no cell, but for columns of texts.
    """
    rows = []
    for number, row in enumerate(pasted.rows, 1):
        made: dict[str, Any] = {}
        for text, column in zip(row, to, strict=False):
            if column is None or (text is None and not column.nullable):
                continue
            try:
                made[column.name] = None if text is None else read(text, column.type)
            except ValueError as error:
                raise SvcError(
                    f"row {number}, {column.name}: {error}", f"There is: {str(text)[:60]}"
                ) from error
        rows.append(made)
    return rows
