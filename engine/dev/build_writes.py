"""Filter that separates a user's saves from files that a build command writes among its own sources.

A file that changes during each of several builds in a row is written by the build, and no longer starts one.
Otherwise a command that writes a stamp beside its sources would run forever. A change while no build runs
is the user's.
"""

import time
from dataclasses import dataclass
from pathlib import Path

BUILDS_IN_A_ROW = 3
"""Number of successive builds during which a file must change to count as written by them."""


@dataclass(frozen=True, slots=True)
class BuildInterval:
    """The latest build of a resource: its number and its times (Unix epoch, ns; no end while it runs)."""

    number: int
    start_ns: int
    end_ns: int | None = None

    def contains(self, time_ns: int) -> bool:
        """Return whether the build ran at this time."""
        return self.start_ns <= time_ns and (self.end_ns is None or time_ns <= self.end_ns)


class BuildWriteFilter:
    """Tracks which files the build of one resource writes outside of its output."""

    def __init__(self) -> None:
        self._streaks: dict[Path, tuple[int, int]] = {}

    def split(self, paths: set[Path], interval: BuildInterval | None) -> tuple[set[Path], set[Path]]:
        """Split changed files into those that start a build, and those newly found to be the build's own."""
        saves, build_outputs = set(), set()
        for path in paths:
            if interval is None or not interval.contains(_changed_ns(path)):
                self._streaks.pop(path, None)
                saves.add(path)
                continue
            last, length = self._streaks.get(path, (0, 0))
            if last != interval.number:
                length = length + 1 if last == interval.number - 1 else 1
                self._streaks[path] = (interval.number, length)
                if length == BUILDS_IN_A_ROW:
                    build_outputs.add(path)
            if length < BUILDS_IN_A_ROW:
                saves.add(path)
        return saves, build_outputs


def _changed_ns(path: Path) -> int:
    """Return when a file last changed; the current time if it is gone."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return time.time_ns()
