"""Limits of a statement that an owner runs: its duration, and the bytes that it writes.

SQLite spills large sorts, groups and intermediate results to temporary files and has no limit for them. Linux
counts the bytes that a thread writes, also to the write-ahead log. Other systems have no such limit.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from engine.files.statement_memory import StatementMemory
from engine.files.statement_watch import Watched

MAX_WRITTEN_BYTES = 1 << 30
"""Maximum bytes that a statement, or the running statements of a project's guests, write to the log and to
temporary files."""
STEPS_PER_TURN = 500
"""Steps of a statement between two calls of its progress handler."""


class StatementLimit(Watched):
    """Limits of the statements of a connection. As a context, it limits those of the calling thread."""

    def __init__(
        self,
        connection: apsw.Connection,
        seconds: float,
        *,
        written: float = math.inf,
        fits: Callable[[int], bool] = lambda written: True,
        stopped: Callable[[], bool] = lambda: False,
        memory: StatementMemory | None = None,
    ) -> None:
        """Interrupt after `seconds`, after `written` bytes, when `fits` is false for them, or if `stopped`.

        `memory` is that of statements that collect values.
        """
        super().__init__(connection)
        self._seconds = seconds
        self._max_written = written
        self._fits = fits
        self._stopped = stopped
        self._memory = memory
        self.oversized = False

    def __enter__(self) -> "StatementLimit":
        self._thread = threading.get_native_id()
        self._began = self._written()
        if self._memory is not None:
            self._connection.set_progress_handler(self._memory.give_way, STEPS_PER_TURN)
        self._end = time.monotonic() + self._seconds
        self.oversized = False
        self.watch()
        return self

    def __exit__(self, *error: object) -> None:
        self.unwatch()
        self._connection.set_progress_handler(None)

    def is_over_limit(self) -> bool:
        """Return whether to stop."""
        written = self._written() - self._began
        self.oversized = self.oversized or written > self._max_written or not self._fits(written)
        return self.oversized or self._stopped() or time.monotonic() > self._end

    def _written(self) -> int:
        return written_bytes(f"self/task/{self._thread}")


def written_bytes(thread: str) -> int:
    """Return the bytes that a thread (`self/task/<number>`) has written, 0 if not counted."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{thread}/io").read_bytes().split()
        return int(fields[fields.index(b"wchar:") + 1])
    return 0
