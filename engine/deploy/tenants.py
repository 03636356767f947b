"""Timelines and open Doors of the Projects in this process, created on first use."""

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.deploy.doors import Doors, DoorUsage
from engine.door import Door
from engine.timeline.bus import TimelineBus


class Tenants:
    """The Projects of this process by name; the empty name is the service itself."""

    def __init__(
        self, doors: Sequence[Door], data: Callable[[str], Path], made: Callable[[str, TimelineBus], object]
    ) -> None:
        """`data` returns the data folder of a Project; `made` is called with each new timeline."""
        self._kinds = doors
        self._data = data
        self._made = made
        self._timelines: dict[str, TimelineBus] = {}
        self._doors: dict[str, Doors] = {}

    def timeline(self, project: str) -> TimelineBus:
        """Return a Project's timeline."""
        if project not in self._timelines:
            self._timelines[project] = TimelineBus()
            self._made(project, self._timelines[project])
        return self._timelines[project]

    def doors(self, project: str) -> Doors:
        """Return a Project's open Doors."""
        if project not in self._doors:
            self._doors[project] = Doors(self._kinds, project, self._data(project), self.timeline(project))
        return self._doors[project]

    def uses(self, project: str) -> DoorUsage:
        """Return the mutable usage counts of a Project's Doors."""
        return self._doors[project].uses if project in self._doors else DoorUsage()

    async def aclose(self) -> None:
        """Close every Door, after the last guest has finished."""
        for doors in self._doors.values():
            await doors.aclose()
