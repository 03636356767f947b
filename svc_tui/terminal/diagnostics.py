"""The only writer of stderr: errors, warnings, notes and progress. Owns the exit codes."""

from enum import IntEnum

from rich.console import Console
from rich.text import Text

from engine.errors import SvcError

_console = Console(stderr=True, highlight=False, soft_wrap=True)


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
}


def exit_code(error: SvcError) -> ExitCode:
    """Return the exit status for an error."""
    return _BY_CODE.get(error.code, ExitCode.FAILED)


def set_color(mode: str) -> None:
    """Choose `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = Console(
        stderr=True,
        highlight=False,
        soft_wrap=True,
        force_terminal=True if mode == "always" else None,
        no_color=True if mode == "never" else None,
    )


def render(error: SvcError) -> None:
    """Write an error: what happened, where, and what to do."""
    _write(Text.assemble(("error: ", "bold red"), error.message))
    for found in getattr(error, "diagnostics", ()):
        place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
        _write(Text.assemble("  ", (place, "bold"), f"  {found.message}"))
        if found.frame:
            _write(Text("\n".join(f"    {line}" for line in found.frame.splitlines())))
    printed = getattr(error, "output", "")
    if printed and not getattr(error, "diagnostics", ()):
        _write(Text("\n".join(f"    {line}" for line in printed.rstrip().splitlines()), "dim"))
    if error.hint:
        _write(Text.assemble(("  hint: ", "cyan"), error.hint))


def warn(message: str, hint: str = "") -> None:
    """Write a warning."""
    _write(Text.assemble(("warning: ", "bold yellow"), message))
    if hint:
        _write(Text.assemble(("  hint: ", "cyan"), hint))


def note(text: str) -> None:
    """Write a line that is nice to know."""
    if text:
        _write(Text(text, "dim"))


def progress(text: str) -> None:
    """Write what is going on, when it takes longer than a blink."""
    _write(Text.assemble(("· ", "cyan"), (text, "dim")))


def _write(text: Text) -> None:
    try:
        _console.print(text, markup=False)
    except BrokenPipeError:
        return
