"""Follower of the timeline's file: reads records written since a position, by any process.

It polls the file instead of the engine, so a slow follower costs the engine nothing. It handles a missing and
a replaced file.
"""

from pathlib import Path

from engine.timeline.query import (
    PAGE_BYTES,
    PAGE_RECORDS,
    CursorPage,
    RecordPage,
    TimelineReader,
    open_reader,
)
from engine.timeline.record_filter import RecordFilter


class TimelineFollower:
    """Returns each matching record once, in order. Use it from one thread at a time."""

    def __init__(self, path: Path, record_filter: RecordFilter, position: int) -> None:
        """Start after the cursor `position`; the file is opened on the first poll."""
        self._path = path
        self._filter = record_filter
        self._reader: TimelineReader | None = None
        self.position = position

    def poll(self, limit: int = PAGE_RECORDS, max_bytes: int = PAGE_BYTES) -> RecordPage:
        """Return the next records, possibly none. Raises `TimelineError`.

        The page's `dropped` counts records that were removed to free space before this follower read them.
        """
        reader = self._open()
        if reader is None:
            return RecordPage([], self.position)
        page = reader.after(self.position, self._filter, limit, max_bytes)
        self.position = page.position
        return page

    def scan_cursors(self, limit: int) -> CursorPage:
        """Return which of the next `limit` records match. Otherwise as `poll`."""
        reader = self._open()
        if reader is None:
            return CursorPage(self.position, self.position, "[]", 0)
        page = reader.scan_cursors(self.position, self._filter, limit)
        self.position = page.position
        return page

    def _open(self) -> TimelineReader | None:
        if self._reader is not None and self._reader.replaced():
            self.close()
        if self._reader is None:
            self._reader = open_reader(self._path)
            if self._reader is not None and self.position > self._reader.bounds()[1]:
                # The position belongs to an older file, written while the clock was ahead.
                self.position = self._reader.origin() - 1
        return self._reader

    def close(self) -> None:
        """Close the file; the position remains."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
