"""Color of both output streams, and removal of control codes from untrusted text."""

import errno
import os
import re
from typing import Literal, get_args

from rich.console import Console
from rich.text import Text

from engine.ansi import SGR

ColorMode = Literal["auto", "always", "never"]
COLOR_MODES: tuple[str, ...] = get_args(ColorMode)

_MARKS = (0x061C, 0x200E, 0x200F)
"""Marks of the text direction, which take no cells."""
_CONTROL = [*range(32), *range(127, 160), *_MARKS, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
CONTROL_CHARS = {code: "\ufffd" for code in _CONTROL if code not in (9, 10)}
"""A table for `str.translate`: output of guests and tools must not move the cursor, set colors or change the
text direction.
"""
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")


class _PipeConsole(Console):
    """A console that raises `BrokenPipeError` for a closed pipe instead of ending the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def create_console(mode: ColorMode, *, stderr: bool) -> Console:
    """Return a writer that never wraps; `auto` uses color on a terminal unless NO_COLOR is set."""
    always = mode == "always"
    no_color = mode == "never" or (mode == "auto" and bool(os.environ.get("NO_COLOR")))
    return _PipeConsole(
        stderr=stderr,
        highlight=False,
        soft_wrap=True,
        force_terminal=True if always else None,
        color_system="standard" if always else None if no_color else "auto",
        no_color=False if always else None,
    )


def plain(text: str) -> str:
    """Return text without escape sequences; other control characters but tab and newline become `�`."""
    return _SEQUENCE.sub("", text).translate(CONTROL_CHARS)


def strip_control_codes(text: Text) -> Text:
    """Return text with its styles; control characters but tab and newline become `�`."""
    if text.plain.isprintable():
        return text
    clean = text.copy()
    clean.plain = text.plain.translate(CONTROL_CHARS)
    return clean


def from_ansi(text: str) -> Text:
    """Return the output of a tool with its own colors and without other control codes."""
    pieces = SGR.split(text)
    return Text.from_ansi("".join(piece if i % 2 else plain(piece) for i, piece in enumerate(pieces)))
