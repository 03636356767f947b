"""File formats, values that report previews and progress, and incremental decoding of UTF-8 files."""

import codecs
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import BinaryIO, Literal, get_args

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

    `table` is the current table. The last report is `done`, and `skipped` names omitted tables.
    """

    rows: int
    bytes: int = 0
    total: int | None = None
    table: str = ""
    _: KW_ONLY
    skipped: tuple[str, ...] = ()
    done: bool = False


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


_CHUNK = 1 << 16


class FileLines:
    """The lines of a file. `line` and `bytes` count the lines and bytes that were read."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.line = 0
        self.bytes = 0

    def next(self) -> str:
        """Return the next line with its end, or an empty text. Raises `TablesError`."""
        raw = self._source.readline(MAX_RECORD + 1)
        if not raw:
            return ""
        self.line += 1
        self.bytes += len(raw)
        if len(raw) > MAX_RECORD:
            raise too_large(self.line)
        if self.line == 1:
            raw = without_mark(raw)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise not_text(self.line, raw[error.start]) from None


def chunks(source: BinaryIO) -> Iterator[str]:
    """Yield a whole file in pieces of text that end anywhere. Raises `TablesError`."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, raw = 1, without_mark(source.read(_CHUNK))
    while True:
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise not_text(line, error.object[error.start]) from None
        line += text.count("\n")
        if text:
            yield text
        if not raw:
            return
        raw = source.read(_CHUNK)


def without_mark(raw: bytes) -> bytes:
    """Return the start of a file without its byte order mark. Raises `TablesError` for UTF-16."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        hint = "Save it in UTF-8, or convert it: `iconv -f UTF-16 -t UTF-8 FILE`."
        raise TablesError("the file is in UTF-16", hint)
    return raw.removeprefix(codecs.BOM_UTF8)


def not_text(line: int, byte: int) -> TablesError:
    """Return the error for a byte that is not UTF-8."""
    return TablesError(
        f"line {line}: the byte {byte:#04x} is not UTF-8",
        "Save the file in UTF-8, or convert it: `iconv -f ENCODING -t UTF-8 FILE`, where ENCODING is that of"
        " the file, such as WINDOWS-1252 or SHIFT_JIS.",
    )


def too_large(line: int) -> TablesError:
    """Return the error for a row beyond all measure."""
    return TablesError(
        f"line {line}: the row has more than {MAX_RECORD >> 20} MiB",
        "Where a quote is never closed, close it; where the file has no line ends, give it some.",
    )
