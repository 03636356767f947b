"""A place in the timeline that moves on: what was written since, from this or any other process.

Owns the position, and what happens when the file is not there yet, or another takes its place. It asks the
file and not the engine, so a slow follower costs the engine nothing.
"""

from pathlib import Path

from engine.timeline.query import CursorPage, RecordFilter, RecordPage, TimelineReader, open_reader


class TimelineFollower:
    """Each record that is wanted, once, in its order. Use from one thread at a time."""

    def __init__(self, path: Path, wanted: RecordFilter, position: int) -> None:
        """Begin after the cursor `position`; nothing is opened yet."""
        self._path = path
        self._filter = wanted
        self._reader: TimelineReader | None = None
        self.position = position

    def poll(self) -> RecordPage:
        """Return the next records, none when there are none yet. Raises `TimelineError`.

        When the page says that records were `missed`, they had been removed to make room before this follower
        came to them.
        """
        reader = self._open()
        if reader is None:
            return RecordPage([], self.position)
        page = reader.after(self.position, self._filter)
        self.position = page.upto
        return page

    def scan_cursors(self, most: int) -> CursorPage:
        """Return which of the next records are wanted, having looked at up to `most`. As `poll` otherwise."""
        reader = self._open()
        if reader is None:
            return CursorPage(self.position, self.position, "[]", 0)
        skimmed = reader.scan_cursors(self.position, self._filter, most)
        self.position = skimmed.upto
        return skimmed

    def _open(self) -> TimelineReader | None:
        if self._reader is not None and self._reader.replaced():
            self.close()
        if self._reader is None:
            self._reader = open_reader(self._path)
            if self._reader is not None and self.position > self._reader.bounds()[1]:
                # The place is one in another file, written when the clock was ahead.
                self.position = self._reader.origin() - 1
        return self._reader

    def close(self) -> None:
        """Let go of the file; the position stays."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
