"""Conversion of a pasted spreadsheet range into cells of a table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from screens.tables.cells import read
from screens.tables.grid import TableColumn
from svc_tui.client import SvcError

MAX_ROWS = 10_000
"""Maximum rows of a range, which is held in memory."""
Texts = Sequence[Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class PastedRange:
    """A pasted range: its column names, its rows as text, and whether the names are its first row."""

    names: tuple[str, ...]
    rows: Texts
    header: bool

    @classmethod
    def from_preview(cls, preview: Mapping[str, Any]) -> "PastedRange":
        """Return the range of a response of `POST /import/preview?format=tsv`. Raises `SvcError`."""
        if preview["count"] > MAX_ROWS:
            raise SvcError(
                f"{preview['count']:,} rows were pasted; the limit is {MAX_ROWS:,}",
                "Save them as a file and press i to import it.",
            )
        return cls(tuple(column["name"] for column in preview["columns"]), preview["rows"], preview["header"])


def targets(pasted: PastedRange, columns: Sequence[TableColumn], first: int) -> list[TableColumn | None]:
    """Return the target of each pasted column, or None to skip it.

    A header with names of columns selects them by name. Otherwise the columns from index `first` follow.
    """
    if pasted.header:
        by_name = {column.name.lower(): column for column in columns}
        matches = [by_name.get(name.lower()) for name in pasted.names]
        if any(matches):
            return [column if column and not column.generated else None for column in matches]
    free = [column for column in columns[first:] if not column.generated]
    return [*free, *[None] * len(pasted.names)][: len(pasted.names)]


def cells(pasted: PastedRange, to: Sequence[TableColumn | None]) -> list[dict[str, Any]]:
    """Return the rows as values by column name. Raises `SvcError` for the first invalid value.

    An empty cell is null in a nullable column, and omitted in others.
    """
    rows = []
    for number, row in enumerate(pasted.rows, 1):
        values: dict[str, Any] = {}
        for text, column in zip(row, to, strict=False):
            if column is None or (text is None and not column.nullable):
                continue
            try:
                values[column.name] = None if text is None else read(text, column.type)
            except ValueError as error:
                raise SvcError(
                    f"row {number}, {column.name}: {error}", f"The cell has: {str(text)[:60]}"
                ) from error
        rows.append(values)
    return rows
