"""CSV reader and writer: RFC 4180 in UTF-8 with a header, and LF or CRLF line ends.

An empty cell is null, an empty cell in quotes an empty text. The standard library's reader cannot
distinguish them before Python 3.12, and refuses cells beyond 128 KiB.
"""

import re
from collections.abc import Iterator, Sequence

from doors.tables.files.format import MAX_RECORD, FileLines, check_width, too_large
from doors.tables.sqlite.errors import TablesError, fold

DELIMITERS = (",", ";", "\t", "|")
Cells = list[str | None]
_QUOTED = re.compile('"[^"]*"')

_TO_QUOTE = re.compile('[",\r\n]|^$|^\ufeff')
_TO_QUOTE_IN_HEADER = re.compile('[",\r\n;\t|]|^$|^\ufeff')


def format_row(cells: Sequence[str | None], to_quote: re.Pattern[str] = _TO_QUOTE) -> str:
    """Return a row as a line of CSV."""
    texts = (
        "" if cell is None else '"' + cell.replace('"', '""') + '"' if to_quote.search(cell) else cell
        for cell in cells
    )
    return ",".join(texts) + "\n"


def format_header(names: Sequence[str]) -> str:
    """Return the header line. Names with another delimiter are quoted, too."""
    return format_row(names, _TO_QUOTE_IN_HEADER)


def read(lines: FileLines) -> tuple[list[str], Iterator[tuple[int, Cells]]]:
    """Return the names in the header, and the rows, each with its first line number.

    The delimiter is the comma, or a semicolon, tab or vertical bar where the header has no comma. Raises
    `TablesError`.
    """
    first = lines.next()
    if not first:
        raise TablesError("the file is empty", "The first line of CSV names the columns.")
    bare = _QUOTED.sub("", first)
    delimiter = next((each for each in DELIMITERS if each in bare), ",")
    names = _header(_cells(lines, first, _pattern(delimiter), delimiter))
    return names, _rows(lines, len(names), delimiter)


def _header(cells: Cells) -> list[str]:
    names: dict[str, str] = {}
    check_width(len(cells), 1)
    for number, cell in enumerate(cells, 1):
        if not cell:
            hint = "Name every column in the first line."
            if number == 1:
                hint += " pandas writes its index there; index=False omits it."
            if fold(cells[0] or "") == "sep=":
                hint = "This line is for Excel: remove it, so that the first line names the columns."
            raise TablesError(f"line 1: column {number} has no name", hint)
        if fold(cell) in names:
            raise TablesError(f"line 1: two columns are named {cell}", "Give each its own name.")
        names[fold(cell)] = cell
    return list(names.values())


def _rows(lines: FileLines, width: int, delimiter: str) -> Iterator[tuple[int, Cells]]:
    pattern = _pattern(delimiter)
    while text := lines.next():
        line = lines.line
        if width > 1 and text in ("\n", "\r\n"):
            continue
        cells = _cells(lines, text, pattern, delimiter)
        if len(cells) != width:
            cells_are = "is 1 cell" if len(cells) == 1 else f"are {len(cells)} cells"
            columns = "1 column" if width == 1 else f"{width} columns"
            raise TablesError(
                f"line {line}: there {cells_are} for {columns}",
                "Put cells with a delimiter or a line end in double quotes.",
            )
        yield line, cells


def _pattern(delimiter: str) -> re.Pattern[str]:
    separator = re.escape(delimiter)
    return re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{separator}\r\n]*+))(?:({separator})|\r?\n?\Z)')


def _cells(lines: FileLines, text: str, pattern: re.Pattern[str], delimiter: str) -> Cells:
    if '"' not in text:
        text = text.removesuffix("\n").removesuffix("\r")
        if "\r" in text:
            raise TablesError(
                f"line {lines.line}: a carriage return has no line feed",
                "End lines with LF or CRLF, and put cells with line ends in double quotes.",
            )
        return [cell or None for cell in text.split(delimiter)]
    line = lines.line
    text = _join_quoted(lines, text)
    cells: Cells = []
    position = 0
    while True:
        match = pattern.match(text, position)
        if match is None:
            raise TablesError(
                f"line {line}: unexpected quote",
                'Put the whole cell in double quotes, and write each quote in it twice: "5"" disk".',
            )
        cell, plain, more = match.groups()
        cells.append(cell.replace('""', '"') if cell is not None else plain or None)
        if not more:
            return cells
        position = match.end()


def _join_quoted(lines: FileLines, text: str) -> str:
    """Return a complete row, with the further lines that its quoted cells span."""
    line, parts, size = lines.line, [text], len(text)
    odd = text.count('"') % 2
    while odd:
        more = lines.next()
        size += len(more)
        if not more:
            raise TablesError(f"line {line}: a quote is never closed", "Close it, or double it.")
        if size > MAX_RECORD:
            raise too_large(line)
        parts.append(more)
        odd ^= more.count('"') % 2
    return "".join(parts)
