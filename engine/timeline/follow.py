"""A place in the timeline that moves on: what was written since, from this or any other process.

Owns the position, and what happens when the file is not there yet, or another takes its place. It asks the
file and not the engine, so a slow follower costs the engine nothing.
"""

from pathlib import Path

from engine.timeline.query import Filter, Page, Skimmed, TimelineReader, opened


class Follower:
    """Each record that is wanted, once, in its order. Use from one thread at a time."""

    def __init__(self, path: Path, wanted: Filter, position: int) -> None:
        """Begin after the cursor `position`; nothing is opened yet."""
        self._path = path
        self._wanted = wanted
        self._reader: TimelineReader | None = None
        self.position = position

    def poll(self) -> Page:
        """Return the next records, none when there are none yet. Raises `TimelineError`.

        When the page says that records were `missed`, they had been removed to make room before this follower
        came to them.
        """
        reader = self._opened()
        if reader is None:
            return Page([], self.position)
        page = reader.after(self.position, self._wanted)
        self.position = page.upto
        return page

    def skim(self, most: int) -> Skimmed:
        """Return which of the next records are wanted, having looked at up to `most`. As `poll` otherwise."""
        reader = self._opened()
        if reader is None:
            return Skimmed(self.position, self.position, "[]", 0)
        skimmed = reader.skim(self.position, self._wanted, most)
        self.position = skimmed.upto
        return skimmed

    def _opened(self) -> TimelineReader | None:
        if self._reader is not None and self._reader.replaced():
            self.close()
        if self._reader is None:
            self._reader = opened(self._path)
            if self._reader is not None and self.position > self._reader.bounds()[1]:
                # The place is one in another file, written when the clock was ahead.
                self.position = self._reader.origin() - 1
        return self._reader

    def close(self) -> None:
        """Let go of the file; the position stays."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
