"""File formats, and the values that report previews and progress."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import TablesError

Format = Literal["csv", "json", "jsonl", "sql", "db"]
"""`csv`, `json` (an array of objects) and `jsonl` (an object a line) hold the rows of one table;
`sql` (a dump) and `db` (an SQLite file) hold tables."""
FORMATS: tuple[Format, ...] = get_args(Format)
RowsFormat = Literal["csv", "json", "jsonl"]
ROWS: tuple[RowsFormat, ...] = get_args(RowsFormat)
_ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".sql": "sql",
    ".db": "db",
    ".sqlite": "db",
    ".sqlite3": "db",
}

MAX_RECORD = 8 << 20
"""Bytes of one row in a file."""
STEP = 1000
"""Rows from one word of progress to the next."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far it is: rows, bytes of the file, and, where it is known, how many bytes that is of.

    `table` is the one under way. `skipped` names, at the very end, what was left out, and why.
    """

    rows: int
    bytes: int = 0
    total: int | None = None
    table: str = ""
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """The table that a file would become: columns with inferred types, and the first rows.

    `rows` has as many texts a row as there are columns, None for no value. `header`: the names of the columns
    are the file's own.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | None, ...], ...]
    count: int
    header: bool = True


def format_of(name: str) -> Format:
    """Return the format that the ending of a file's name stands for. Raises `TablesError`."""
    format = _ENDINGS.get(PurePath(name).suffix.lower())
    if format is None:
        raise TablesError(f"cannot determine the format of {name}", f"Pass a format: {', '.join(FORMATS)}.")
    return format
