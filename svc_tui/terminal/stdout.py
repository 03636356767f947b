"""The only writer of stdout: data that another program may read.

Owns what a closed pipe means: success.
"""

import codecs
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from engine.errors import SvcError
from svc_tui.terminal.style import ColorMode, create_console, plain, strip_control_codes

Styled = list[tuple[str, str]]
"""A line as pieces of text, each with a style (empty: plain)."""

_console = create_console("auto", stderr=False)
_COMMANDING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}


def set_color(mode: ColorMode) -> None:
    """Choose `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = create_console(mode, stderr=False)


def is_terminal() -> bool:
    """Whether a person reads it."""
    return _console.is_terminal


def width() -> int:
    """Return how many cells a line has, as far as the terminal tells."""
    return _console.width


def line(text: Text | str = "") -> None:
    """Write one line, without what commands a terminal."""
    shown = strip_control_codes(text) if isinstance(text, Text) else _clean(text)
    _written(lambda: _console.print(shown, markup=False))


def styled(pieces: Styled) -> None:
    """Write one line made of (text, style) pieces."""
    styled_lines([pieces])


def styled_lines(lines: Sequence[Styled]) -> None:
    """Write lines made of pieces, at once: the quick way, for lines that come by the thousand."""
    system = None if _console.no_color else _SYSTEMS.get(_console.color_system or "")
    text = "".join(_rendered(pieces, system) + "\n" for pieces in lines)
    file = _console.file
    _written(lambda: (file.write(text), file.flush()))


def _rendered(pieces: Styled, system: ColorSystem | None) -> str:
    if system is None:
        return _clean("".join([text for text, _ in pieces]))
    return "".join(
        _style(style).render(_clean(text), color_system=system) if style else _clean(text)
        for text, style in pieces
    )


def _clean(text: str) -> str:
    return text if text.isprintable() else plain(text)


@cache
def _style(name: str) -> Style:
    return Style.parse(name)


def data(value: Any) -> None:
    """Write one JSON document on a line."""
    data_lines([value])


def data_lines(values: Sequence[Any]) -> None:
    """Write JSON documents, one a line, at once."""
    text = "".join(f"{_json(value)}\n" for value in values)
    file = _console.file
    _written(lambda: (file.write(text), file.flush()))


def _json(value: Any) -> str:
    """Return JSON in which no character commands a terminal; those below space are never bare in JSON."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return _COMMANDING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Raw:
    """Writes bytes as they are; on a terminal, text in UTF-8 without what commands it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        """Write some bytes; a character may begin in one piece and end in the next."""
        file = _console.file
        if file.isatty():
            text = _clean(self._decoder.decode(data))
            _written(lambda: (file.write(text), file.flush()))
            return
        target = getattr(file, "buffer")  # noqa: B009
        _written(lambda: (file.flush(), target.write(data), target.flush()))


def pause(seconds: float) -> None:
    """Wait, and end the program well as soon as nobody reads its output any more."""
    try:
        number = _console.file.fileno()
    except (OSError, ValueError):
        time.sleep(seconds)
        return
    watched = select.poll()
    watched.register(number, 0)  # what is no event to ask for is told all the same: errors and hang-ups
    if watched.poll(seconds * 1000):
        closed_pipe()


def _written(write: Callable[[], object]) -> None:
    try:
        write()
    except BrokenPipeError:
        closed_pipe()
    except OSError as error:
        _to_nowhere()
        raise SvcError(
            f"the output can not be written: {error.strerror}", "Check where standard output leads to."
        ) from error


def closed_pipe() -> NoReturn:
    """End the program well: the reader has what it wanted."""
    _to_nowhere()
    raise SystemExit(0)


def _to_nowhere() -> None:
    """Let what is still buffered go nowhere, so that nothing fails again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
