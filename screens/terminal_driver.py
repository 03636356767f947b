"""The Console's terminal where it is one: what is written to a terminal that was closed goes nowhere.

The toolkit's thread that writes would end by it, and who writes would wait for that thread for ever.
"""

import contextlib
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """The toolkit's driver for terminals, which outlives them."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        assert self._file is not None
        setattr(self, "_file", _ClosedTerminal(self._file))  # noqa: B010


class _ClosedTerminal:
    """A file of a terminal, as far as a driver uses it."""

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
