"""Limits of a statement that an owner runs: its duration, and the bytes that it writes.

SQLite spills large sorts, groups and intermediate results to temporary files and has no limit for them. Linux
counts the bytes that a thread writes, also to the write-ahead log. Other systems have no such limit.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.files.statement_memory import StatementMemory

MAX_WRITTEN_BYTES = 1 << 30
"""Maximum bytes that a statement, or the running statements of a project's guests, write to the log and to
temporary files."""


class StatementLimit:
    """SQLite's progress handler for statements of the calling thread."""

    def __init__(
        self,
        seconds: float,
        written: int,
        fits: Callable[[int], bool] = lambda written: True,
        memory: StatementMemory | None = None,
    ) -> None:
        """Stop after `seconds`, after `written` bytes, or when `fits` is false for the bytes so far.

        `memory` is that of statements that collect values.
        """
        self._end = time.monotonic() + seconds
        self._began = _written()
        self._max_written = written
        self._fits = fits
        self._memory = memory
        self.oversized = False

    def __call__(self) -> bool:
        """Return whether to stop."""
        if self._memory is not None:
            self._memory.give_way()
        written = _written() - self._began
        self.oversized = self.oversized or written > self._max_written or not self._fits(written)
        return self.oversized or time.monotonic() > self._end


def _written() -> int:
    return written_bytes("thread-self")


def written_bytes(thread: str) -> int:
    """Return the bytes that a thread (`thread-self`, `self/task/<number>`) has written, 0 if not counted."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{thread}/io").read_bytes().split()
        return int(fields[fields.index(b"wchar:") + 1])
    return 0
