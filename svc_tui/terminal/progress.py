"""A progress line on stderr that replaces itself. Nothing is written to a pipe."""

import sys
from contextlib import suppress

from rich.cells import set_cell_size

from svc_tui.terminal.style import create_console, plain


class Progress:
    """A context manager whose line is cleared at the end."""

    def __init__(self) -> None:
        self._width = create_console("never", stderr=True).width - 1 if sys.stderr.isatty() else 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Replace the line."""
        self._write(set_cell_size(plain(text), self._width).rstrip())

    def _write(self, text: str) -> None:
        if self._width:
            # A closed terminal must not fail the command.
            with suppress(OSError):
                sys.stderr.write(f"\r\x1b[2K{text}")
                sys.stderr.flush()
