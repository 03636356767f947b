"""The only writer of stderr: errors, warnings, notes and progress. Defines the exit codes.

Also the color of both streams, and the removal of control codes from untrusted text.
"""

import errno
import json
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum
from typing import Literal, get_args

from rich.cells import set_cell_size
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from engine.ansi import SGR
from engine.errors import SvcError
from engine.lane import BuildFailed
from engine.manifest.problems import ManifestError

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


_console = create_console("auto", stderr=True)
_count = ""
"""Beginning of the last line if that is a count, which the next count replaces."""


class ExitCode(IntEnum):
    """The exit codes of `svc`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMEOUT = 4
    CONFLICT = 5
    INTERRUPTED = 130


_BY_CODE = {
    "manifest": ExitCode.USAGE,
    "no-project": ExitCode.USAGE,
    "usage": ExitCode.USAGE,
    "unreachable": ExitCode.UNREACHABLE,
    "unauthenticated": ExitCode.UNREACHABLE,
    "timeout": ExitCode.TIMEOUT,
    "conflict": ExitCode.CONFLICT,
}


def exit_code(error: SvcError) -> ExitCode:
    return _BY_CODE.get(error.code, ExitCode.FAILED)


def set_color(mode: ColorMode) -> None:
    """Set the color mode: `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = create_console(mode, stderr=True)


def render(error: SvcError) -> None:
    """Write an error with its details and its hint."""
    summary = error.summary if isinstance(error, ManifestError) else error.message
    line(Text.assemble(("error: ", "bold red"), plain(summary)))
    if isinstance(error, ManifestError):
        for problem in error.problems:
            position = f"{error.path.name}:{problem.line}" if problem.line else error.path.name
            key = [(plain(problem.key), "cyan"), ("  ", "")] if problem.key else []
            line(Text.assemble("  ", (position, "bold"), "  ", *key, plain(problem.message)))
            if problem.hint:
                line(Text(f"      {plain(problem.hint)}", "dim"))
    elif isinstance(error, BuildFailed):
        _build_failure(error)
    if error.hint:
        _hint(error.hint)


def _build_failure(error: BuildFailed) -> None:
    """Write the compiler's diagnostics, or its output if neither they nor lines of progress contain it."""
    for diagnostic in error.diagnostics:
        parts = (diagnostic.file, diagnostic.line, diagnostic.column)
        position = ":".join(str(part) for part in parts if part)
        message = plain(diagnostic.message)
        line(Text.assemble("  ", (f"{position}  " if position else "", "bold"), message))
        if diagnostic.frame:
            line(from_ansi(_indented(diagnostic.frame)))
    if error.output and not error.diagnostics and not error.reported:
        line(Text.assemble(from_ansi(_indented(error.output.rstrip())), style="dim"))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _hint(text: str) -> None:
    line(Text.assemble(("  hint: ", "cyan"), plain(text)))


def warn(message: str, hint: str = "") -> None:
    line(Text.assemble(("warning: ", "bold yellow"), plain(message)))
    if hint:
        _hint(hint)


def note(text: str) -> None:
    """Write a note; an empty one is skipped."""
    if text:
        line(Text(plain(text), "dim"))


class ProgressLine:
    """A progress line that replaces itself and is cleared at the end. Nothing is written to a pipe."""

    def __init__(self) -> None:
        self._width = _console.width - 1 if sys.stderr.isatty() else 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, text: str) -> None:
        self._write(set_cell_size(plain(text), self._width).rstrip())

    def _write(self, text: str) -> None:
        if self._width:
            with suppress(OSError):  # a closed terminal does not fail the command
                sys.stderr.write(f"\r\x1b[2K{text}")
                sys.stderr.flush()


def question(text: str) -> None:
    """Write a prompt without a line end."""
    with suppress(OSError):
        _console.print(Text(plain(text)), end="", markup=False)


def progress(text: str) -> None:
    """Write a step of a longer operation. On a terminal, a count, as in "1 of 3", replaces the one before."""
    global _count
    shown = Text.assemble(("· ", "cyan"), (plain(text), "dim"))
    count = re.match(r".+?(?=\d+ of \d)", text) if _console.is_terminal else None
    if count is not None:
        shown.truncate(_console.width, overflow="ellipsis")
        if count[0] == _count:
            _console.control(Control.move(0, -1), Control((ControlType.ERASE_IN_LINE, 2)))
    line(shown)
    _count = count[0] if count is not None else ""


def end_count() -> None:
    """Leave the last count on the terminal: another line follows it."""
    global _count
    _count = ""


def log(level: str, text: str) -> None:
    """Write a line of the service's log: text on a terminal, one JSON document otherwise."""
    if _console.is_terminal:
        (progress if level == "info" else warn)(text)
        return
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line(Text(json.dumps({"time": time, "level": level, "text": plain(text)}, ensure_ascii=False)))


def line(text: Text) -> None:
    """Write a formatted line. A closed stderr does not fail the command."""
    end_count()
    try:
        _console.print(strip_control_codes(text), markup=False)
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
