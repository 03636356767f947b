"""The only writer of stderr: errors, warnings, notes and progress. Owns the exit codes."""

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum

from rich.text import Text

from engine.errors import SvcError
from engine.lane import BuildFailed
from engine.manifest.problems import ManifestError, Problem
from svc_tui.terminal.style import ColorMode, create_console, from_ansi, plain, strip_control_codes

_console = create_console("auto", stderr=True)


class ExitCode(IntEnum):
    """What the exit status of `svc` says."""

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
    """Return the exit status for an error."""
    return _BY_CODE.get(error.code, ExitCode.FAILED)


def set_color(mode: ColorMode) -> None:
    """Choose `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = create_console(mode, stderr=True)


def render(error: SvcError) -> None:
    """Write an error: what happened, where, and what to do."""
    summary = error.summary if isinstance(error, ManifestError) else error.message
    _write(Text.assemble(("error: ", "bold red"), plain(summary)))
    if isinstance(error, ManifestError):
        for problem in error.problems:
            _manifest_problem(error.path.name, problem)
    elif isinstance(error, BuildFailed):
        _build_failure(error)
    if error.hint:
        _hint(error.hint)


def _manifest_problem(file: str, problem: Problem) -> None:
    place = f"{file}:{problem.line}" if problem.line else file
    pieces = [("  ", ""), (place, "bold"), ("  ", "")]
    if problem.key:
        pieces += [(plain(problem.key), "cyan"), ("  ", "")]
    _write(Text.assemble(*pieces, plain(problem.message)))
    if problem.hint:
        _write(Text(f"      {plain(problem.hint)}", "dim"))


def _build_failure(error: BuildFailed) -> None:
    """Write the places that the compiler complains of, or what it printed when it names none."""
    for found in error.diagnostics:
        place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
        message = plain(found.message)
        _write(Text.assemble("  ", (f"{place}  " if place else "", "bold"), message))
        if found.frame:
            _write(from_ansi(_indented(found.frame)))
    if error.output and not error.diagnostics:
        _write(Text.assemble(from_ansi(_indented(error.output.rstrip())), style="dim"))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _hint(text: str) -> None:
    _write(Text.assemble(("  hint: ", "cyan"), plain(text)))


def warn(message: str, hint: str = "") -> None:
    """Write a warning."""
    _write(Text.assemble(("warning: ", "bold yellow"), plain(message)))
    if hint:
        _hint(hint)


def note(text: str) -> None:
    """Write a line that is nice to know."""
    if text:
        _write(Text(plain(text), "dim"))


def line(text: Text) -> None:
    """Write a line that was laid out elsewhere."""
    _write(text)


def transient(text: str, *, finished: bool) -> None:
    """Write where something stands, in the place of what this wrote before; nothing where nobody watches."""
    if _console.is_terminal:
        with suppress(OSError):
            _console.print(Text(f"\r{plain(text)}\x1b[K", "dim"), end="\n" if finished else "", markup=False)


def question(text: str) -> None:
    """Write what is asked, and stay on its line."""
    with suppress(OSError):
        _console.print(Text(plain(text)), end="", markup=False)


def progress(text: str) -> None:
    """Write what is going on, when it takes longer than a blink."""
    _write(Text.assemble(("· ", "cyan"), (plain(text), "dim")))


def log(level: str, text: str) -> None:
    """Write a line of a server's own log: words for a person at a terminal, else a JSON document."""
    if _console.is_terminal:
        (progress if level == "info" else warn)(text)
        return
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    _write(Text(json.dumps({"time": moment, "level": level, "text": plain(text)}, ensure_ascii=False)))


def _write(text: Text) -> None:
    """Write one line; that nobody can read it is no reason to fail."""
    try:
        _console.print(strip_control_codes(text), markup=False)
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
