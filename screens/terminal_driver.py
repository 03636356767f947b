"""Terminal driver that survives a closed terminal.

Without it, Textual's writer thread would end with an error and the application would wait for that thread
forever.
"""

import contextlib
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Textual's terminal driver, with write errors ignored."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        assert self._file is not None
        setattr(self, "_file", _ClosedTerminal(self._file))  # noqa: B010


class _ClosedTerminal:
    """A terminal file that ignores write errors."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()
