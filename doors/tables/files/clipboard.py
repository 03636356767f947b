"""Parser of a spreadsheet range from the clipboard: tabs between cells, one line a row.

A cell with a tab, line end or quote is in double quotes, with its own quotes doubled. Any other quote is an
ordinary character, as in typed text. An empty cell is null.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import BinaryIO, Literal

from doors.tables.files.csv_file import Cells
from doors.tables.files.format import Preview, check_width
from doors.tables.files.text_reader import chunks
from doors.tables.sqlite.errors import TablesError, fold
from doors.tables.types.infer import infer, is_plain_text

Header = Literal["auto", "yes", "no"]
"""Whether the first row has the column names; `auto` says yes only if it cannot be data."""
MAX_BYTES = 64 << 20
_CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"(?=[\t\r\n]|\Z)|([^\t\r\n]*+))(\t|\r?\n|\r|\Z)')


def preview_pasted(source: BinaryIO, header: Header, row_count: int) -> Preview:
    """Return the table inferred from a range, with its first `row_count` rows. Raises `TablesError`.

    Columns without a header are named `column 1`, `column 2` and so on. Rows that are shorter than the first
    are filled with empty cells; longer ones are an error.
    """
    source.seek(0)
    rows = _rows("".join(_limit_size(chunks(source))))
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


def _limit_size(pieces: Iterator[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise TablesError(
                f"the pasted range has more than {MAX_BYTES >> 20} MiB",
                "Save it as a file and import the file.",
            )
        yield piece


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
    names = [fold(cell) for cell in cells if cell]
    return len(set(names)) == len(cells) and all(is_plain_text(cell) for cell in cells if cell)
