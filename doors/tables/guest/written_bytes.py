"""Limit of the bytes that a project's running statements write to temporary files and the write-ahead log.

SQLite spills large sorts, groups and intermediate results to temporary files and has no limit for them. Each
statement runs on a thread of its own, and Linux counts the bytes that a thread writes. Other systems have no
such limit.
"""

from collections.abc import Sequence

from doors.tables.guest.session import GuestSession
from engine.files.statement_limit import MAX_WRITTEN_BYTES, written_bytes

CHECK_SECONDS = 0.05


class WrittenBytesLimit:
    """Counts the bytes written by the running statements of one project. Call it on one thread."""

    def __init__(self, limit: int = MAX_WRITTEN_BYTES) -> None:
        self._limit = limit
        self._counts: dict[int, tuple[int, int, int]] = {}
        """By thread: the number of its request, the bytes written before it, and those at the last check."""

    def check(self, sessions: Sequence[GuestSession]) -> None:
        """Stop the statement that has written most if all together exceed the limit."""
        written = {}
        for session in sessions:
            total = written_bytes(f"self/task/{session.thread}")
            number, before, last = self._counts.get(session.thread, (-1, 0, 0))
            if number != session.request_number:
                number, before = session.request_number, last
            self._counts[session.thread] = number, before, total
            if session.running:
                written[session] = total - before
        if sum(written.values()) > self._limit:
            session = max(written, key=lambda each: written[each])
            session.stop_writing(self._counts[session.thread][0])
