"""Limits of statements: their duration, their memory, and the bytes that they write.

SQLite calls a progress handler after a number of steps only, and a step may take long. So a thread checks all
statements of the process. SQLite notices an interrupt at the next jump of the statement.

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

MAX_WRITTEN_BYTES = 1 << 30
"""Maximum bytes that a statement, or the running statements of a project's guests, write to the log and to
temporary files."""
CHECK_SECONDS = 0.02
"""Interval of the checks."""


class StatementLimit:
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

        With `memory`, long statements take turns, and those that collect values have a limit. Checks hold the
        `lock`, so while others hold it, there is no interrupt.
        """
        self._connection = connection
        self._seconds = seconds
        self._max_written = written
        self._fits = fits
        self.stopped = stopped
        self.memory = memory
        self.lock = threading.Lock()
        self.active = self.watched = self.oversized = False

    def __enter__(self) -> "StatementLimit":
        self._thread = threading.get_native_id()
        self._began = self._written()
        self._end = time.monotonic() + self._seconds
        self.oversized = False
        self.watch()
        return self

    def __exit__(self, *error: object) -> None:
        self.unwatch()

    def watch(self) -> None:
        """Begin to check."""
        if self.memory is not None:
            self.memory.start()
        self.active = True
        if not self.watched:
            _WATCH.add(self)

    def unwatch(self) -> None:
        """End the checks: no interrupt comes later."""
        with self.lock:
            self.active = False
        if self.memory is not None:
            self.memory.stop()

    def check(self) -> None:
        """Interrupt the statement if it is above its limits, or if they cannot be checked."""
        with self.lock:
            try:
                over = self.active and (
                    self.is_over_limit() or (self.memory is not None and self.memory.is_over_limit())
                )
            except Exception:
                over = True
            if over:
                if self.memory is not None:
                    self.memory.stopped = True
                self._connection.interrupt()

    def is_over_limit(self) -> bool:
        """Return whether to stop."""
        written = self._written() - self._began
        self.oversized = self.oversized or written > self._max_written or not self._fits(written)
        return self.oversized or self.stopped() or time.monotonic() > self._end

    def _written(self) -> int:
        return written_bytes(f"self/task/{self._thread}")


class _Watch:
    """The running statements of the process, and the thread that checks them."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._watched: set[StatementLimit] = set()
        self._thread: threading.Thread | None = None

    def add(self, watched: StatementLimit) -> None:
        with self._condition:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="statement-watch", daemon=True)
                self._thread.start()
            self._watched.add(watched)
            watched.watched = True
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                for each in self._watched:
                    each.watched = False  # One that becomes active after this is added again.
                    each.watched = each.active
                self._watched = {each for each in self._watched if each.watched}
                self._condition.wait_for(lambda: self._watched)
                watched = list(self._watched)
            for each in watched:
                each.check()
            time.sleep(CHECK_SECONDS)


_WATCH = _Watch()


def written_bytes(thread: str) -> int:
    """Return the bytes that a thread (`self/task/<number>`) has written, 0 if not counted."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{thread}/io").read_bytes().split()
        return int(fields[fields.index(b"wchar:") + 1])
    return 0
