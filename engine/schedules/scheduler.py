"""Starts the runs of schedules: each is a request through the gateway, to its resource.

The state of a project's schedules is one value of the bucket, `schedules/<project>`. A process settles an
occurrence by compare-and-set, and only then starts it. So one of the nodes of a fleet starts it, and none
starts it again after a kill.

An occurrence is settled when `Entry.after` reaches it: it was started, skipped or missed. A run that was
stored and did not report its end is interrupted. Times are seconds of the Unix epoch.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from engine.bucket.protocols import BucketError, KeyValue, StaleRevision
from engine.cancellation import cancel, spawn
from engine.door import Severity
from engine.errors import SvcError
from engine.gateway.routes import internal_request
from engine.gateway.traced_exchange import request_id
from engine.http.exchange import Handler, MemoryExchange
from engine.manifest.model import Project
from engine.manifest.schedules import Overlap, Schedule
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, utc

KEY_PREFIX = "schedules/"
TICK_SECONDS = 1.0
"""How often the clock is read: it can jump."""
REFRESH_SECONDS = 60.0
"""How often the state is read in any case: another node can have changed it."""
MARGIN_SECONDS = 60.0
"""A run of another node that does not end within this and its limit is lost."""
RETRY_SECONDS = 5.0
"""Pause after the bucket failed."""
ALERT_FAILURES = 3
"""Failures in a row after which there is an alert."""
LATE_SECONDS = 60
"""An occurrence that cannot start for so long is missed."""
MAX_AHEAD = 86400
"""An entry that is further ahead of the clock was stored by a wrong clock. It begins again."""
RunEnd = Literal["succeeded", "failed", "interrupted"]
_log = logging.getLogger("svc.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. `id` is that of its request, `due` its occurrence, `owner` its process, as `NODE.TOKEN`.

    `state` is None until it has ended, `status` if there was no response.
    """

    id: str
    due: int
    started: float
    owner: str = ""
    state: RunEnd | None = None
    status: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The state of one schedule.

    `times` is `Schedule.times` of the one that it belongs to. Occurrences until `after` are settled, except
    for `queued`, which waits for the end of a run. `last` is the run that ended last. `failures` counts the
    failed ones since the last success, on the node `failed_on` at last.
    """

    times: str
    after: int
    paused: bool = False
    running: tuple[Run, ...] = ()
    queued: int | None = None
    last: Run | None = None
    failures: int = 0
    failed_on: str = ""


Entries = Mapping[str, Entry]
"""State by `RESOURCE:PATH`."""
_FORM = TypeAdapter(dict[str, Entry])


def advance(
    schedule: Schedule, entry: Entry | None, now: float, owner: str, is_lost: Callable[[Run], bool]
) -> tuple[Entry, Run | None, list[str]]:
    """Settle the occurrences of a schedule until now. At most one of them starts, the last one.

    Returns the entry to store, and then the run to start and what to warn of. `is_lost` returns whether the
    process of a run has ended.
    """
    notes: list[str] = []
    moment = int(now)
    if entry is None:
        entry = Entry(times=schedule.times, after=moment)
    elif entry.times != schedule.times or entry.after > moment + MAX_AHEAD:
        entry = replace(entry, times=schedule.times, after=moment, queued=None)
    for run in filter(is_lost, entry.running):
        notes.append(f"the run of {utc(run.due)} was interrupted; svc does not start it again")
        others = tuple(each for each in entry.running if each != run)
        entry = replace(entry, running=others, last=replace(run, state="interrupted"))
    if entry.paused:
        return entry, None, notes
    due = schedule.latest(entry.after, moment)
    if due is not None:
        entry = replace(entry, after=due)
        if moment - due > LATE_SECONDS and not schedule.catch_up:
            notes.append(f"{utc(due)} was missed: the service did not run then")
            due = None
    if entry.running and schedule.overlap != "allow":
        if due is not None and schedule.overlap == "queue" and entry.queued is None:
            entry = replace(entry, queued=due)
        elif due is not None:
            notes.append(f"{utc(due)} was skipped: an earlier run continues")
        due = None
    elif entry.queued is not None:
        due, entry = entry.queued, replace(entry, queued=due)
    if due is None:
        return entry, None, notes
    run = Run(id=request_id(), due=due, started=now, owner=owner)
    return replace(entry, running=(*entry.running, run)), run, notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """The end of a run. `request` is the id of its request, `due` the occurrence, `started` when it began.

    `status` is `null` if there was no response. An `interrupted` run did not end: its process was killed.
    """

    request: str
    due: str
    started: str
    state: RunEnd
    status: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """A schedule of a resource. `at` is its cron expression or its period.

    `next` is the next occurrence, `null` while the schedule is paused. `running` is the number of its runs
    now, `last` the last end of one.
    """

    resource: str
    path: str
    at: str
    timezone: str
    overlap: Overlap
    catch_up: bool
    paused: bool
    next: str | None
    running: int
    last: ScheduleResult | None


class _Plan(NamedTuple):
    """When to read the state of a project again: at `wake`, if its clock goes back, or if it changes."""

    project: Project
    read: float
    wake: float
    failure: str = ""
    """Why the schedules do not run, to report it once."""


class Scheduler:
    """The schedules of all projects of a process. Use on one event loop."""

    def __init__(
        self,
        cells: Callable[[], KeyValue],
        projects: Callable[[], Mapping[str, Project]],
        send: Handler,
        timeline_of: Callable[[str], TimelineBus],
        *,
        node: str = "",
        clock: Callable[[], float] = time.time,
        turn: Callable[[str], AbstractAsyncContextManager[None]] = lambda project: nullcontext(),
        alert: Callable[[str, str, str], None] = lambda project, text, subject: None,
    ) -> None:
        """`cells` is called on use, `projects` returns those that are served, `send` is the gateway.

        `node` is this one of a fleet; nodes have different names. A run of a project waits for its `turn`.
        `alert` gets a project, the problem of a schedule or an empty text, and which schedule.
        """
        self._alert = alert
        self._cells, self._projects, self._send, self._timeline_of = cells, projects, send, timeline_of
        self._node, self._owner, self._clock, self._turn = node, f"{node}.{secrets.token_hex(6)}", clock, turn
        self._known: dict[str, Entries] = {}
        """By project, the state that was read or stored last."""
        self._plans: dict[str, _Plan] = {}
        self._alive: set[str] = set()
        """Ids of the runs of this process, and of those that it is about to start."""
        self.runs: set[asyncio.Task[Run]] = set()
        """The runs of this process."""
        self._loop: asyncio.Task[None] | None = None
        self.active = False
        """Whether occurrences start."""

    def start(self) -> None:
        """Start the occurrences of all schedules from now on."""
        self.active = True
        self._loop = asyncio.create_task(self._run())

    async def stop(self, seconds: float) -> None:
        """Start no more, and wait some time for the runs."""
        if self._loop is not None:
            await cancel([self._loop])
        await self.aclose(seconds)

    async def aclose(self, seconds: float | None = None) -> None:
        """Wait until the ends of all runs, which must be stopped, are stored, or for some time."""
        if self.runs:
            await asyncio.wait(self.runs, timeout=seconds)

    async def _run(self) -> None:
        while True:
            await self.tick()
            now = self._clock()
            wake = min((plan.wake for plan in self._plans.values()), default=math.inf)
            await asyncio.sleep(min(TICK_SECONDS, max(wake - now, 0.01)))

    async def tick(self) -> None:
        """Start what is due now."""
        projects, now = self._projects(), self._clock()
        for name in self._plans.keys() - projects.keys():
            del self._plans[name]
        due = []
        for name, project in projects.items():
            plan = self._plans.get(name)
            if plan is None or plan.project is not project or not plan.read <= now < plan.wake:
                due.append(self._advance(name, project))
        await asyncio.gather(*due)

    async def _advance(self, name: str, project: Project) -> None:
        """Settle the occurrences of a project until now, and start those that are due."""
        schedules, now = _schedules(project), self._clock()
        for key in self._known.get(name, {}).keys() - schedules.keys():
            self._alert(name, "", key)
        if not schedules:
            self._plans[name] = _Plan(project, now, math.inf)
            return
        starting: dict[str, Run] = {}
        notes: list[tuple[str, str]] = []

        def settle(entries: Entries) -> Entries:
            self._alive -= {run.id for run in starting.values()}
            starting.clear()
            notes.clear()
            # The state of a schedule that was removed lasts for a day, and while it is paused.
            after = {key: each for key, each in entries.items() if each.paused or each.after > now - 86400}
            for key, (resource, schedule) in schedules.items():
                lost = partial(self._is_lost, now, project.resources[resource].run_limit_secs)
                after[key], run, found = advance(schedule, entries.get(key), now, self._owner, lost)
                notes.extend((key, note) for note in found)
                if run is not None:
                    self._alive.add(run.id)
                    starting[key] = run
            return after

        try:
            entries = await self._change(name, settle)
        except BaseException as error:
            self._alive -= {run.id for run in starting.values()}
            before = self._plans.get(name)
            self._plans[name] = _Plan(project, now, now + RETRY_SECONDS, str(error))
            if not isinstance(error, Exception):
                raise
            if before is None or before.failure != str(error):
                trace = None if isinstance(error, SvcError) else error
                _log.error("the schedules of %s do not run: %s", name, error, exc_info=trace)
            return
        for key, text in notes:
            resource, schedule = schedules[key]
            self._note(name, resource, "WARN", f"schedule {schedule.path}: {text}")
        for key, run in starting.items():
            spawn(self.runs, self._execute(name, *schedules[key], run))
        wake = now + REFRESH_SECONDS
        for key, (resource, schedule) in schedules.items():
            entry = entries[key]
            fails = entry.failures >= ALERT_FAILURES and entry.failed_on == self._node
            text = f"the schedule {schedule.path} of {resource} failed {entry.failures} times in a row"
            self._alert(name, text if fails else "", key)
            if not entry.paused and (following := schedule.next(entry.after)) is not None:
                wake = min(wake, following)
        self._plans[name] = _Plan(project, now, wake)

    def _is_lost(self, now: float, limit: float, run: Run) -> bool:
        if run.owner.rpartition(".")[0] == self._node:
            return run.owner != self._owner or run.id not in self._alive
        return now - run.started > limit + MARGIN_SECONDS

    async def _change(self, project: str, change: Callable[[Entries], Entries]) -> Entries:
        """Change the state of a project's schedules, and return it. Raises `BucketError`.

        That of a project that was removed meanwhile is not stored.
        """
        cells, key = self._cells(), KEY_PREFIX + project
        while True:
            cell = await cells.get(key)
            before = _FORM.validate_json(cell.value) if cell is not None else {}
            after = dict(change(before))
            revision = cell.revision if cell is not None else None
            stored: object = None
            if project in self._projects() and after != before:
                stored = await cells.cas(key, _FORM.dump_json(after), revision)
            if not isinstance(stored, StaleRevision):
                self._known[project] = after
                return after

    def _note(self, project: str, resource: str, level: Severity, text: str, id_: str = "") -> None:
        self._timeline_of(project).append(PlatformRecord(time.time_ns(), resource, level, text, id_))

    async def _execute(self, project: str, resource: str, schedule: Schedule, run: Run) -> Run:
        """Send the request of a run, and store its end."""
        self._note(project, resource, "INFO", f"schedule {schedule.path} of {utc(run.due)}", run.id)
        fields = {"user-agent": "svc-schedule", "content-length": "0", "x-svc-schedule": schedule.path}
        fields |= {"x-svc-scheduled-time": utc(run.due), "x-svc-schedule-times": schedule.at}
        request = internal_request(project, resource, schedule.path, run.id, fields)
        exchange, began = MemoryExchange(request), time.perf_counter()
        try:
            async with self._turn(project):
                await self._send(exchange)
        except Exception:
            _log.exception("the run %s of the schedule %s of %s failed", run.id, schedule.path, resource)
            exchange.abort()
        status = None if exchange.aborted else exchange.status
        state: RunEnd = "succeeded" if status is not None and status < HTTPStatus.BAD_REQUEST else "failed"
        seconds = round(time.perf_counter() - began, 3)
        result = replace(run, state=state, status=status, seconds=seconds)
        if state == "failed":
            outcome = f"with status {status}" if status is not None else "without a response"
            self._note(project, resource, "WARN", f"schedule {schedule.path} failed {outcome}", run.id)
        key = f"{resource}:{schedule.path}"

        def end(entries: Entries) -> Entries:
            if (entry := entries.get(key)) is None:
                return entries
            running = tuple(each for each in entry.running if each.id != result.id)
            failures = entry.failures + 1 if result.state == "failed" else 0
            ended = replace(entry, running=running, last=result, failures=failures, failed_on=self._node)
            return {**entries, key: ended}

        while True:
            with suppress(BucketError):
                await self._change(project, end)
                break
            if self._loop is not None and self._loop.done():
                break  # The service stops: the run counts as interrupted.
            await asyncio.sleep(RETRY_SECONDS)
        self._alive.discard(run.id)
        self._plans.pop(project, None)  # An occurrence may be queued.
        return result

    async def planned(self, project: Project) -> list[PlannedSchedule]:
        """Return the schedules of a project. Raises `BucketError`."""
        if _schedules(project):
            await self._change(project.name, lambda entries: entries)
        return self.known(project)

    def known(self, project: Project) -> list[PlannedSchedule]:
        """Return the schedules of a project as they were read last, without access to the bucket."""
        entries, listed = self._known.get(project.name, {}), []
        now = int(self._clock())
        for key, (resource, schedule) in _schedules(project).items():
            entry = entries.get(key)
            if entry is None or entry.times != schedule.times:
                entry = replace(entry or Entry(times="", after=0), times=schedule.times, after=now)
            due = None if entry.paused else schedule.next(entry.after)
            following = utc(due) if due is not None else None
            last = _described(entry.last) if entry.last is not None else None
            plan = partial(PlannedSchedule, resource=resource, **asdict(schedule), paused=entry.paused)
            listed.append(plan(next=following, running=len(entry.running), last=last))
        return listed

    async def run_now(self, project: Project, resource: str, path: str) -> ScheduleResult:
        """Run a schedule now, paused or not, and return the end. Raises `SvcError`."""
        key, schedule = self._find(project, resource, path)
        now = self._clock()
        run = Run(id=request_id(), due=int(now), started=now, owner=self._owner)
        self._alive.add(run.id)

        def begin(entries: Entries) -> Entries:
            entry = entries.get(key) or Entry(times=schedule.times, after=int(now))
            lost = partial(self._is_lost, now, project.resources[resource].run_limit_secs)
            if schedule.overlap != "allow" and not all(map(lost, entry.running)):
                hint = 'Wait for its end, or permit it by overlap = "allow".'
                raise SvcError(f"schedule {path} of {resource} is running", hint, code="conflict")
            return {**entries, key: replace(entry, running=(*entry.running, run))}

        try:
            await self._change(project.name, begin)
        except BaseException:
            self._alive.discard(run.id)
            raise
        running = spawn(self.runs, self._execute(project.name, resource, schedule, run))
        return _described(await asyncio.shield(running))

    async def pause(self, project: Project, resource: str, path: str, *, paused: bool) -> None:
        """Pause or resume a schedule, whose pauses are not caught up. Raises `SvcError`."""
        key, schedule = self._find(project, resource, path)
        now = int(self._clock())

        def change(entries: Entries) -> Entries:
            entry = entries.get(key) or Entry(times=schedule.times, after=now)
            if entry.paused == paused:
                return entries
            after = entry.after if paused else max(entry.after, now)
            return {**entries, key: replace(entry, paused=paused, after=after, queued=None)}

        await self._change(project.name, change)
        self._plans.pop(project.name, None)

    def _find(self, project: Project, resource: str, path: str) -> tuple[str, Schedule]:
        found = _schedules(project).get(key := f"{resource}:{path}")
        if found is None:
            message = f"{project.name} has no schedule {path} of {resource}"
            raise SvcError(message, "List them with `svc schedule list`.", code="not-found")
        return key, found[1]


def _schedules(project: Project) -> dict[str, tuple[str, Schedule]]:
    """Return the schedules of a project with their resources, by `RESOURCE:PATH`."""
    return {
        f"{name}:{schedule.path}": (name, schedule)
        for name, resource in project.resources.items()
        for schedule in resource.schedules
    }


def _described(run: Run) -> ScheduleResult:
    members = asdict(run) | {"due": utc(run.due), "started": utc(run.started)}
    del members["owner"]
    return ScheduleResult(request=members.pop("id"), **members)
