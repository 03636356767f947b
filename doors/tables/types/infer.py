"""Inference of column types from all rows of a file or of a pasted range, in one pass.

A type is inferred when every value fits it without loss: numbers with leading zeros are text. Blobs cannot
be distinguished from text. Memory use is that of one row of a file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, islice
from typing import Any, BinaryIO, Literal

from doors.tables.files import csv_file
from doors.tables.files.csv_file import Cells
from doors.tables.files.format import FileLines, Format, Preview, check_width, chunks
from doors.tables.files.json_file import objects
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import TablesError, Value, fold
from doors.tables.types.registry import INTEGER, TEXT, TYPES, ColumnType, TypeName

PREVIEW_ROWS = 20


@dataclass(slots=True)
class _ColumnValues:
    """The types that are still possible for a column, and whether it could be the primary key.

    In files of JSON, whose strings are marked as such, text is preferred to documents.
    """

    name: str
    is_json: bool = False
    _: KW_ONLY
    missing: bool = False
    possible: set[TypeName] = field(default_factory=lambda: set(TYPES))
    values: int = 0
    rising: bool = True
    last: int | None = None

    def add_text(self, text: str | None) -> None:
        """Add a cell of CSV."""
        if text is None:
            self.missing = True
            return
        self.values += 1
        self.possible = {name for name in self.possible if _fits(text, TYPES[name])}
        self._add_number(int(text) if INTEGER.name in self.possible else None)

    def add_value(self, value: Any, source_text: str) -> None:
        """Add a JSON value."""
        if value is None:
            self.missing = True
            return
        self.values += 1
        self.possible = {name for name in self.possible if _fits_json(value, source_text, TYPES[name])}
        self._add_number(value if INTEGER.name in self.possible else None)

    def _add_number(self, value: int | None) -> None:
        self.rising = self.rising and value is not None and (self.last is None or value > self.last)
        self.last = value

    def column(self) -> Column:
        """Return the column with the best type. A rising integer column named id is the primary key."""
        possible = [TYPES[name] for name in self.possible] if self.values else []
        type = min(
            possible,
            key=lambda each: (self.is_json and each.form == "document", each.infer_rank),
            default=TEXT,
        )
        key = fold(self.name) == "id" and type.is_rowid and self.rising and not self.missing
        return Column(self.name, type.name, nullable=not key, primary_key=key)


def _fits(text: str, type: ColumnType) -> bool:
    return type.infer is not None and _is_accepted(type.infer, text)


def _is_accepted(function: Callable[[str], Value], text: str) -> bool:
    try:
        return function(text) is not False
    except ValueError:
        return False


def _fits_json(value: Any, source_text: str, type: ColumnType) -> bool:
    """Return whether a JSON value fits a type: everything fits documents, which store its source text."""
    if type.form == "document":
        return True
    if isinstance(value, str):
        is_unicode = value.isascii() or value == value.encode(errors="ignore").decode()
        return is_unicode and (type.form == "string" or (type.form == "format" and _fits(value, type)))
    if isinstance(value, bool):
        return type.form == "bool"
    is_number = isinstance(value, int | float) and type.form in ("int", "float")
    return is_number and _is_accepted(type.parse, source_text)


def preview(source: BinaryIO, format: Format) -> Preview:
    """Read a whole file of rows and return the table that it would become. Raises `TablesError`.

    For `csv`, `json` and `jsonl`. The source is read from its beginning to its end.
    """
    source.seek(0)
    if format == "csv":
        names, rows = csv_file.read(FileLines(source))
        return infer(names, (cells for _, cells in rows), PREVIEW_ROWS)
    return _preview_json(source, format)


def infer(
    names: Sequence[str], rows: Iterable[csv_file.Cells], row_count: int, *, header: bool = True
) -> Preview:
    """Return the table that rows of text would become, with the first `shown` rows.

    `header` is true if the names are from the header of the rows.
    """
    stats = [_ColumnValues(name) for name in names]
    first, count = [], 0
    for count, cells in enumerate(rows, 1):
        if count <= row_count:
            first.append(tuple(cells))
        for column, cell in zip(stats, cells, strict=True):
            column.add_text(cell)
    return Preview(tuple(column.column() for column in stats), tuple(first), count, header)


def _preview_json(source: BinaryIO, format: Any) -> Preview:
    stats: dict[str, _ColumnValues] = {}
    first: list[dict[str, str | None]] = []
    count = 0
    for count, (_, _, fields) in enumerate(objects(source, format), 1):
        if count <= PREVIEW_ROWS:
            first.append(
                {
                    fold(name): value if isinstance(value, str | None) else source_text
                    for name, value, source_text in fields
                }
            )
        for name, value, source_text in fields:
            if fold(name) not in stats:
                stats[fold(name)] = _ColumnValues(name, is_json=True, missing=count > 1)
            stats[fold(name)].add_value(value, source_text)
        check_width(len(stats), count)
        if len(fields) < len(stats):
            for absent in stats.keys() - {fold(name) for name, _, _ in fields}:
                stats[absent].missing = True
    rows = tuple(tuple(row.get(name) for name in stats) for row in first)
    return Preview(tuple(column.column() for column in stats.values()), rows, count)


Header = Literal["auto", "yes", "no"]
"""Whether the first row has the column names; `auto` says yes only if it cannot be data."""
MAX_BYTES = 64 << 20
_CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"(?=[\t\r\n]|\Z)|([^\t\r\n]*+))(\t|\r?\n|\r|\Z)')


def preview_pasted(source: BinaryIO, header: Header, row_count: int) -> Preview:
    """Return the table inferred from a spreadsheet range, with its first `row_count` rows.

    Tabs are between cells, and a row is a line. A cell with a tab, line end or quote is in double quotes,
    with its own quotes doubled. Any other quote is an ordinary character, as in typed text. An empty cell is
    null. Raises `TablesError`.

    Columns without a header are named `column 1`, `column 2` and so on. Rows that are shorter than the first
    are filled with empty cells; longer ones are an error.
    """
    if source.seek(0, 2) > MAX_BYTES:
        raise TablesError(
            f"the pasted range has more than {MAX_BYTES >> 20} MiB", "Save it as a file and import the file."
        )
    source.seek(0)
    rows = _rows("".join(chunks(source)))
    head = list(islice(rows, 2))
    if not head:
        raise TablesError("the clipboard has no cells", "Copy the cells of a spreadsheet first.")
    first = head[0]
    has_header = header == "yes" or (header == "auto" and len(head) > 1 and _is_header(first))
    names = [f"column {number}" for number in range(1, len(first) + 1)]
    if has_header:
        names = [cell or name for cell, name in zip(first, names, strict=True)]
    filled = _filled(chain(head[has_header:], rows), len(first), 1 + has_header)
    return infer(names, filled, row_count, header=has_header)


def _filled(rows: Iterator[Cells], width: int, number: int) -> Iterator[Cells]:
    """Fill rows with empty cells. `number` is that of the first row, from 1."""
    for row_number, row in enumerate(rows, number):
        if len(row) > width:
            raise TablesError(
                f"row {row_number}: there are {len(row)} cells, and {width} in the first row",
                "Copy a range that has as many cells in every row.",
            )
        row.extend([None] * (width - len(row)))
        yield row


def _rows(text: str) -> Iterator[Cells]:
    position, row, number = 0, Cells(), 1
    while position < len(text):
        match = _CELL.match(text, position)
        assert match is not None
        quoted, plain, end = match.groups()
        row.append(quoted.replace('""', '"') if quoted is not None else plain or None)
        check_width(len(row), number)
        position = match.end()
        if end != "\t":
            yield row
            row, number = Cells(), number + 1
    if row:
        row.append(None)
        yield row


def _is_header(cells: Cells) -> bool:
    """Return whether a row can only be a header: no cell is empty, repeated, or a value."""
    names = {fold(cell) for cell in cells if cell}
    types = [type for type in TYPES.values() if type.form != "string"]
    parsers = [type.parse for type in types if type.form in ("int", "float", "format")]
    tests = [*parsers, *(type.infer for type in types if type.infer)]
    return len(names) == len(cells) and not any(
        _is_accepted(test, cell or "") for cell in cells for test in tests
    )
