"""The only writer of stdout: lines, JSON and tables. A closed pipe ends the program with success.

Columns of a table are aligned by cell width and cut to the terminal. If they do not fit side by side, each
row is a block of lines.
"""

import codecs
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from engine.errors import SvcError
from svc_tui.terminal import stderr
from svc_tui.terminal.stderr import CONTROL_CHARS, ColorMode, create_console, plain, strip_control_codes

Styled = list[tuple[str, str]]
"""A line as pieces of text, each with a style; an empty style is plain."""
UNLIMITED_WIDTH = 1 << 16

_console = create_console("auto", stderr=False)
_style = cache(Style.parse)
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_CONTROL_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOR_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}


def set_color(mode: ColorMode) -> None:
    """Set the color mode: `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = create_console(mode, stderr=False)


def is_terminal() -> bool:
    return _console.is_terminal


def width() -> int:
    """Return the width of the terminal in cells. A file or a pipe has no limit."""
    return _console.width if _console.is_terminal else UNLIMITED_WIDTH


def line(text: Text | str) -> None:
    """Write one line without control characters."""
    clean = strip_control_codes(text) if isinstance(text, Text) else _clean(text)
    _attempt(lambda: _console.print(clean, markup=False))


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: a document for --json, and lines: text, or a list of lines made of pieces.

    Programs get `fields` (titles and rows) instead of lines. Without --json, notes come `before` and `after`,
    and `empty` without lines; then `warnings` with hints. In the end, `error` is raised, or `code` returned.
    """

    document: Any
    lines: Iterable[Any] = ()
    _: KW_ONLY
    fields: tuple[Sequence[str], Iterable[Sequence[Any]]] | None = None
    before: str = ""
    after: str = ""
    empty: str = ""
    warnings: Iterable[tuple[str, str]] = ()
    error: SvcError | None = None
    code: int = 0

    def write(self, *, as_json: bool) -> int:
        """Write the document or the lines, and return the exit code. Raises `error`."""
        if as_json:
            data(self.document)
        else:
            stderr.note(self.before)
            if self.fields is not None and not is_terminal():
                fields(*self.fields)
            elif self.lines and isinstance(self.lines, list) and isinstance(self.lines[0], list):
                styled_lines(self.lines)
            else:
                note = self.empty
                for text in self.lines:
                    line(text)
                    note = ""
                stderr.note(note)
            stderr.note(self.after)
            for message, hint in self.warnings:
                stderr.warn(message, hint)
        if self.error is not None:
            raise self.error
        return self.code


def styled_lines(lines: Sequence[Styled]) -> None:
    """Write lines made of pieces in one call, which is fast for thousands of lines."""
    _write("".join(line + "\n" for line in _all_rendered(lines)))


def fields(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table for programs: a line of titles and one per row, with tabs between the fields."""
    texts = [[json.dumps(value) if isinstance(value, bool) else str(value) for value in row] for row in rows]
    lines = [[text.replace("\t", " ").replace("\n", " ") for text in row] for row in (titles, *texts)]
    styled_lines([[("\t".join(row), "")] for row in lines])


def redraw(lines: Sequence[Styled]) -> None:
    """Replace the contents of a terminal's screen by lines, in one call."""
    _write("\x1b[H" + "\r\n".join(line + "\x1b[K" for line in _all_rendered(lines)) + "\x1b[J")


def control(codes: str) -> None:
    _write(codes)


def _all_rendered(lines: Sequence[Styled]) -> list[str]:
    system = None if _console.no_color else _COLOR_SYSTEMS.get(_console.color_system or "")
    if system is None:
        return [_clean("".join([text for text, _ in pieces])) for pieces in lines]
    return [
        "".join(
            _style(style).render(_clean(text), color_system=system) if style else _clean(text)
            for text, style in pieces
        )
        for pieces in lines
    ]


def _clean(text: str) -> str:
    return text if text.isprintable() else plain(text)


def diff(text: str) -> None:
    styled_lines(
        [
            [(line, "bold" if line[:3] in {"+++", "---"} else _DIFF_STYLES.get(line[:1], ""))]
            for line in text.splitlines()
        ]
    )


def data(*values: Any) -> None:
    """Write JSON documents in one call, one per line."""
    json_lines(json.dumps(value, ensure_ascii=False) for value in values)


def json_lines(texts: Iterable[str]) -> None:
    """Write JSON texts in one call, one per line."""
    _write("".join(f"{_json(text)}\n" for text in texts))


def _json(text: str) -> str:
    """Return JSON with control characters escaped; JSON itself escapes those below U+0020."""
    if text.isprintable():
        return text
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Raw:
    """A writer of bytes; on a terminal, of UTF-8 text without control characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        """Write a chunk; a character may be split between chunks."""
        file = _console.file
        if file.isatty():
            _write(_clean(self._decoder.decode(data)))
            return
        target = getattr(file, "buffer")  # noqa: B009
        _attempt(lambda: (file.flush(), target.write(data), target.flush()))


def pause(seconds: float) -> None:
    """Sleep, and exit with success once the reader of a pipe has closed it."""
    poll = select.poll()
    try:
        poll.register(_console.file, 0)  # errors and hang-ups are reported for any event mask
    except (OSError, ValueError):  # Without a file of the system, as when stdout was closed from the start.
        time.sleep(seconds)
        return
    if poll.poll(seconds * 1000):
        closed_pipe()


def _write(text: str) -> None:
    file = _console.file
    _attempt(lambda: (file.write(text), file.flush()))


def _attempt(write: Callable[[], object]) -> None:
    stderr.end_count()
    try:
        write()
    except BrokenPipeError:
        closed_pipe()
    except OSError as error:
        raise unwritable(error) from error


def unwritable(error: OSError) -> SvcError:
    """Return the error for a failure of stdout, to which nothing more is written."""
    _discard_output()
    return SvcError(f"cannot write to stdout: {error.strerror}", "Check the target of the redirection.")


def closed_pipe() -> NoReturn:
    """Exit with success after the reader has closed the pipe. Raises `SystemExit`."""
    _discard_output()
    raise SystemExit(0)


def _discard_output() -> None:
    """Redirect stdout to /dev/null, so that flushing the buffer at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_STYLES = {
    "accent": "cyan",
    "bad": "red",
    "good": "green",
    "notice": "blue",
    "orange": "yellow",
    "teal": "cyan",
    "violet": "magenta",
    "warn": "yellow",
}


def toned(lines: Iterable[Sequence[tuple[str, str]]]) -> list[Styled]:
    """Return lines of the Console for a terminal."""
    return [[(text, _STYLES.get(tone, tone)) for text, tone in line] for line in lines]


Cell = tuple[str, str]
"""A text and its style."""
_GAP = "  "
_MIN_COLUMN = 8
"""Minimum cells of a column."""
_MAX_COLUMN = 60
"""Maximum cells of a column that has another beside it."""
_VISIBLE = {**CONTROL_CHARS, 10: "↵", 13: "", 9: "⇥"}
_MAX_CHARS = 10_000
"""Characters of a cell that are formatted: more never fit on a line."""


def one_line(text: str) -> str:
    """Return text on one line: symbols for line ends and tabs, no control characters."""
    if len(text) > _MAX_CHARS:
        text = text[:_MAX_CHARS] + "…"
    return text if text.isprintable() else text.translate(_VISIBLE)


def table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], right: Collection[int] = (), cells: int = 0
) -> list[Styled]:
    """Return the lines of a table for the terminal, or for `cells`. `right` has right-aligned columns."""
    names = [one_line(head) for head in heads]
    room = cells or width()
    clean = [[(one_line(text), style) for text, style in row] for row in rows]
    widths = [
        max([cell_len(name), *(cell_len(row[index][0]) for row in clean)]) for index, name in enumerate(names)
    ]
    fitted_widths = _fit(widths, room)
    if fitted_widths is None:
        return _records(names, clean, room)
    return [_line(row, fitted_widths, right) for row in ([(name, "bold") for name in names], *clean)]


def _fit(widths: list[int], width: int) -> list[int] | None:
    """Return column widths that fit on a line, narrowing the widest first; None if impossible."""
    room = width - len(_GAP) * (len(widths) - 1)
    if len(widths) > 1:
        widths = [min(column, _MAX_COLUMN) for column in widths] if sum(widths) > room else widths
    if sum(min(column, _MIN_COLUMN) for column in widths) > room:
        return None
    widths = list(widths)
    while sum(widths) > room:
        widest = max(widths)
        next_widest = max([column for column in widths if column < widest], default=0)
        count = widths.count(widest)
        excess = sum(widths) - room
        reduction = max(1, min(widest - max(next_widest, 1), -(-excess // count)))
        widths = [column - reduction if column == widest else column for column in widths]
    return widths


def _line(cells: Sequence[Cell], widths: Sequence[int], right: Collection[int]) -> Styled:
    pieces: Styled = []
    for index, ((text, style), width) in enumerate(zip(cells, widths, strict=True)):
        truncated = _cut(text, width)
        blank = " " * (width - cell_len(truncated))
        pieces.append((_GAP if index else "", ""))
        if index in right:
            pieces += [(blank, ""), (truncated, style)]
        else:
            pieces += [(truncated, style), (blank if index < len(widths) - 1 else "", "")]
    return [piece for piece in pieces if piece[0]]


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else set_cell_size(text, width)


def _records(names: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[Styled]:
    name_width = min(max((cell_len(name) for name in names), default=0), 30, max(width // 3, 1))
    room = max(width - name_width - len(_GAP), _MIN_COLUMN)
    lines: list[Styled] = []
    for number, row in enumerate(rows, 1):
        lines.append([(f"── {number} ──", "dim")])
        for name, (text, style) in zip(names, row, strict=True):
            blank = " " * (name_width - cell_len(_cut(name, name_width)))
            lines.append([(_cut(name, name_width), "bold"), (blank + _GAP, ""), (_cut(text, room), style)])
    return lines
