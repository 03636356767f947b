"""File formats, and the values that report previews and progress."""

from dataclasses import dataclass
from typing import Literal, get_args

from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import TablesError

Format = Literal["csv", "json", "jsonl", "sql", "db"]
"""`csv`, `json` (an array of objects) and `jsonl` (an object a line) hold the rows of one table;
`sql` (a dump) and `db` (an SQLite file) hold tables."""
FORMATS: tuple[Format, ...] = get_args(Format)
RowsFormat = Literal["csv", "json", "jsonl"]
ROWS: tuple[RowsFormat, ...] = get_args(RowsFormat)

MAX_RECORD = 8 << 20
"""Maximum bytes of one row in a file."""
MAX_COLUMNS = 2000
"""Maximum columns of a file, as of a table in SQLite."""
STEP = 1000
"""Number of rows between progress reports."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """Progress of an import or export: rows, and bytes of the file out of `total`, None if unknown.

    `table` is the current table. In the last report, `skipped` names omitted tables.
    """

    rows: int
    bytes: int = 0
    total: int | None = None
    table: str = ""
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """The table inferred from a file: columns with inferred types, and the first rows.

    Each row has one text per column, None for no value. `header` is true if the column names are from the
    file.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | None, ...], ...]
    count: int
    header: bool = True


def check_width(columns: int, row: int) -> None:
    """Raise `TablesError` if a file has too many columns. `row` counts from 1."""
    if columns > MAX_COLUMNS:
        raise TablesError(
            f"row {row}: the file has more than {MAX_COLUMNS} columns", "Tables have at most that many."
        )
