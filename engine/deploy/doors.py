"""The open Doors of a project in this process: their folders, environment variables and usage counts."""

import asyncio
import hmac
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.bucket.blobs import FolderBlobs
from engine.door import DOMAIN, Door, DoorContext, DoorStorage, LimitsStorage, LogEntry, OpenDoor
from engine.errors import SvcError
from engine.job_store import JobStore
from engine.quota import Quota
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record, StructuredRecord
from engine.wasm.outbound.door_calls import DoorBinding

DoorUsage = Counter[tuple[str, str]]
"""Number of requests to Doors, by Door and resource."""


class Doors:
    """All open Doors of one project. Create it on the event loop that runs the guests."""

    def __init__(
        self,
        doors: Sequence[Door],
        project: str,
        folder: Path,
        timeline: TimelineBus,
        storage: DoorStorage | None = None,
        *,
        on_work: Callable[[str], None] = lambda project: None,
    ) -> None:
        """`folder` has the project's data; each Door uses the subfolder of its name.

        Without `storage`, blobs are in the folder, and signatures are valid as long as this process runs.
        `on_work` is called with the project when a job may wait.
        """
        log, measure = _DoorLog(timeline), timeline.measurements.append
        storage = storage or DoorStorage(FolderBlobs(folder), secrets.token_bytes(32))
        self.uses = DoorUsage()
        opened: dict[str, OpenDoor] = {}
        for door in doors:
            place = DoorContext(project, folder / door.name, log, measure, storage)
            context = replace(place, sibling=opened.__getitem__, on_work=partial(on_work, project))
            opened[door.name] = door.open(context)
        self.jobs = next((each for each in opened.values() if isinstance(each, JobStore)), None)
        self._storing = [each for each in opened.values() if isinstance(each, LimitsStorage)]
        self.open: Mapping[str, DoorBinding] = {
            door.name: DoorBinding(opened[door.name], door.max_body, door.streams, door.name, self.uses)
            for door in doors
        }
        self.environment: Mapping[str, str] = {
            variable: f"http://{door.name}.{DOMAIN}" for door in doors for variable in door.variables
        }

    def limit(self, quota: Quota) -> None:
        for door in self._storing:
            door.limit(quota)

    async def aclose(self) -> None:
        """Close all Doors, after the last guest has finished."""
        await asyncio.gather(*(door.door.aclose() for door in self.open.values()))


class _DoorLog:
    """Appends log entries of Doors from any thread to the timeline, on the event loop.

    Entries that a Door logs before its response are in the timeline before the guest receives the response.
    """

    def __init__(self, timeline: TimelineBus) -> None:
        self._timeline = timeline
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waiting: list[LogEntry] = []

    def __call__(self, entry: LogEntry) -> None:
        if threading.get_ident() == self._thread:
            self._timeline.append(_record(entry))
            return
        with self._lock:
            self._waiting.append(entry)
            first = len(self._waiting) == 1
        if first:
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            entries, self._waiting = self._waiting, []
        for entry in entries:
            self._timeline.append(_record(entry))


def _record(entry: LogEntry) -> Record:
    caller = entry.caller
    if entry.grant is not None:
        return PlatformRecord(
            entry.time_ns, caller.resource, entry.severity, entry.body, caller.request_id, grant=entry.grant
        )
    return StructuredRecord(
        time_ns=entry.time_ns,
        request_id=caller.request_id,
        trace_id=caller.trace_id,
        span_id=caller.span_id,
        resource=caller.resource,
        severity=entry.severity,
        body=entry.body,
        attributes=dict(entry.attributes),
    )


class Tenants:
    """The projects of this process by name; the empty name is the service itself."""

    def __init__(
        self,
        doors: Sequence[Door],
        data: Callable[[str], Path],
        on_timeline: Callable[[str, TimelineBus], object],
        storage: DoorStorage | None = None,
        on_work: Callable[[str], None] = lambda project: None,
    ) -> None:
        """`data` returns the data folder of a project; `on_timeline` is called with each new timeline.

        `storage` is that of the service, which all projects share. `on_work` is called with a project in
        which a job may wait.
        """
        self._storage = storage
        self._kinds = doors
        self._data = data
        self._on_timeline = on_timeline
        self._on_work = on_work
        self._timelines: dict[str, TimelineBus] = {}
        self._doors: dict[str, Doors] = {}
        self._removed: set[str] = set()
        self._removals: dict[str, str] = {}

    def timeline(self, project: str) -> TimelineBus:
        """Return a project's timeline."""
        if project in self._removed:
            return TimelineBus()
        if project not in self._timelines:
            self._timelines[project] = TimelineBus()
            self._on_timeline(project, self._timelines[project])
        return self._timelines[project]

    def doors(self, project: str) -> Doors:
        """Return a project's open Doors. Raises `SvcError` for a removed project."""
        if project in self._removed:
            raise SvcError(f"the project {project} was removed", "Deploy it again.", code="not-found")
        if project not in self._doors:
            folder, timeline, storage = self._data(project), self.timeline(project), self._storage
            if storage is not None and (removal := self._removals.get(project)):
                # A removed project of this name has made signatures with the other secret.
                own = hmac.digest(storage.secret, removal.encode(), "sha256")
                storage = replace(storage, secret=own)
            self._doors[project] = Doors(
                self._kinds, project, folder, timeline, storage, on_work=self._on_work
            )
        return self._doors[project]

    def open_doors(self, project: str) -> Mapping[str, DoorBinding]:
        return self.doors(project).open if project not in self._removed else {}

    def uses(self, project: str) -> DoorUsage:
        """Return the mutable usage counts of a project's Doors."""
        return self._doors[project].uses if project in self._doors else DoorUsage()

    async def remove(self, project: str) -> None:
        """Close a project. Requests that have not ended get no Doors, and their records are dropped."""
        self._removed.add(project)
        self._timelines.pop(project, None)
        if (doors := self._doors.pop(project, None)) is not None:
            await doors.aclose()

    def reopen(self, project: str, removal: str = "") -> None:
        """Permit Doors and records of a project that is deployed again, after its last `removal` if any."""
        self._removed.discard(project)
        if removal:
            self._removals[project] = removal

    async def aclose(self) -> None:
        """Close every Door, after the last guest has finished."""
        for doors in self._doors.values():
            await doors.aclose()
