"""The Doors of a Project, open in this process.

Owns when Doors are opened and closed, where each keeps its files, and what guests are told of them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.door import DOMAIN, Door, DoorPlace, LogEntry
from engine.timeline.feed import Timeline
from engine.timeline.record import StructuredRecord
from engine.wasm.doorway import OpenDoor


class Doors:
    """Every Door of one Project. Open it on the event loop that runs the guests."""

    def __init__(self, doors: Sequence[Door], project: str, folder: Path, timeline: Timeline) -> None:
        """`folder` is where the Project's data is; each Door has a folder of its own name in it."""

        def log(entry: LogEntry) -> None:
            timeline.append(_record(entry))

        self.open: Mapping[str, OpenDoor] = {
            door.name: OpenDoor(door.open(DoorPlace(project, folder / door.name, log)), door.max_body)
            for door in doors
        }
        self.environment: Mapping[str, str] = {
            variable: f"http://{door.name}.{DOMAIN}" for door in doors for variable in door.variables
        }

    async def aclose(self) -> None:
        """Close all; call when no guest runs any more."""
        await asyncio.gather(*(door.door.aclose() for door in self.open.values()))


def _record(entry: LogEntry) -> StructuredRecord:
    caller = entry.caller
    return StructuredRecord(
        entry.time_ns,
        caller.request_id,
        caller.trace_id,
        caller.span_id,
        caller.resource,
        entry.severity,
        entry.body,
        dict(entry.attributes),
    )
