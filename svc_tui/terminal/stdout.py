"""The only writer of stdout. A closed pipe ends the program with success."""

import codecs
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NoReturn

from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from engine.errors import SvcError
from svc_tui.terminal import stderr
from svc_tui.terminal.stderr import ColorMode, create_console, plain, strip_control_codes

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


def line(text: Text | str = "") -> None:
    """Write one line without control characters."""
    clean = strip_control_codes(text) if isinstance(text, Text) else _clean(text)
    _attempt(lambda: _console.print(clean, markup=False))


def styled(pieces: Styled) -> None:
    """Write one line made of (text, style) pieces."""
    styled_lines([pieces])


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
    return [_rendered(pieces, system) for pieces in lines]


def _rendered(pieces: Styled, system: ColorSystem | None) -> str:
    if system is None:
        return _clean("".join([text for text, _ in pieces]))
    return "".join(
        _style(style).render(_clean(text), color_system=system) if style else _clean(text)
        for text, style in pieces
    )


def _clean(text: str) -> str:
    return text if text.isprintable() else plain(text)


def diff(text: str) -> None:
    """Write a unified diff."""
    styled_lines(
        [
            [(line, "bold" if line[:3] in {"+++", "---"} else _DIFF_STYLES.get(line[:1], ""))]
            for line in text.splitlines()
        ]
    )


def data(value: Any) -> None:
    """Write one JSON document on a line."""
    data_lines([value])


def data_lines(values: Sequence[Any]) -> None:
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
