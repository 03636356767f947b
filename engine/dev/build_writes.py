"""Tells a save from what a build command writes into its own sources.

Owns that one judgement. A file that changes during one build after another is the build's own, and its
changes start no further build: without this, a command that leaves a stamp beside its sources would run for
ever. A file that changes while no build runs is the user's again.
"""

import time
from dataclasses import dataclass
from pathlib import Path

BUILDS = 3
"""In how many builds in a row a file must have changed to count as written by them."""


@dataclass(frozen=True, slots=True)
class Window:
    """The latest build of a Resource: its number, and when it ran (Unix epoch, ns; no end while it runs)."""

    number: int
    began_ns: int
    ended_ns: int | None = None

    def holds(self, time_ns: int) -> bool:
        """Whether the build ran at that time."""
        return self.began_ns <= time_ns and (self.ended_ns is None or time_ns <= self.ended_ns)


class OwnWrites:
    """What the build of one Resource writes outside its output."""

    def __init__(self) -> None:
        self._streaks: dict[Path, tuple[int, int]] = {}

    def saves(self, paths: set[Path], window: Window | None) -> tuple[set[Path], set[Path]]:
        """Split changed files: those that must start a build, and those just found to be the build's own."""
        saves, found = set(), set()
        for path in paths:
            if window is None or not window.holds(_changed_ns(path)):
                self._streaks.pop(path, None)
                saves.add(path)
                continue
            last, length = self._streaks.get(path, (0, 0))
            if last != window.number:
                length = length + 1 if last == window.number - 1 else 1
                self._streaks[path] = (window.number, length)
                if length == BUILDS:
                    found.add(path)
            if length < BUILDS:
                saves.add(path)
        return saves, found


def _changed_ns(path: Path) -> int:
    """Return when a file changed last; now, for one that is gone."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return time.time_ns()
