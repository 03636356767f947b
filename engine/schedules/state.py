"""The state of schedules, and the step that it takes when time passes. Times are seconds of the Unix epoch.

An occurrence is settled when `Entry.after` reaches it: it was started, skipped or missed. That is stored
before a run starts, so no occurrence starts twice. A run that was stored and did not report its end is
interrupted: it is not started again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from engine.gateway.traced_exchange import request_id
from engine.manifest.schedules import Schedule
from engine.timeline.record import utc

LATE_SECONDS = 60
"""An occurrence that cannot start for so long is missed."""
MAX_AHEAD = 86400
"""An entry that is further ahead of the clock was stored by a wrong clock. It begins again."""
Note = tuple[Literal["INFO", "WARN"], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has started and not ended. `id` is that of its request, `due` its occurrence.

    `owner` is the process that runs it, `NODE.TOKEN`.
    """

    id: str
    due: int
    started: float
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a run. `status` is None if there was no response."""

    id: str
    due: int
    started: float
    state: Literal["succeeded", "failed", "interrupted"]
    status: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The state of one schedule.

    `times` is `Schedule.times` of the one that it belongs to. Occurrences until `after` are settled, except
    for `queued`, which waits for the end of a run. `last` is the end of the last run. `failures` counts the
    failed ones since the last success, on the node `failed_on` at last.
    """

    times: str
    after: int
    paused: bool = False
    running: tuple[Run, ...] = ()
    queued: int | None = None
    last: Result | None = None
    failures: int = 0
    failed_on: str = ""


def new_run(due: int, now: float, owner: str) -> Run:
    """Return a run that starts now."""
    return Run(id=request_id(), due=due, started=now, owner=owner)


def advance(
    schedule: Schedule, entry: Entry | None, now: float, owner: str, is_lost: Callable[[Run], bool]
) -> tuple[Entry, Run | None, list[Note]]:
    """Settle the occurrences of a schedule until now. At most one of them starts, the last one.

    Returns the entry to store, and then the run to start and what to report. `is_lost` returns whether the
    process of a run has ended.
    """
    notes: list[Note] = []
    moment = int(now)
    if entry is None:
        entry = Entry(times=schedule.times, after=moment)
    elif entry.times != schedule.times or entry.after > moment + MAX_AHEAD:
        entry = replace(entry, times=schedule.times, after=moment, queued=None)
    for run in filter(is_lost, entry.running):
        lost = Result(id=run.id, due=run.due, started=run.started, state="interrupted")
        notes.append(("WARN", f"the run of {utc(run.due)} was interrupted; svc does not start it again"))
        others = tuple(each for each in entry.running if each != run)
        entry = replace(entry, running=others, last=lost)
    if entry.paused:
        return entry, None, notes
    due = schedule.latest(entry.after, moment)
    if due is not None:
        entry = replace(entry, after=due)
        if moment - due > LATE_SECONDS and not schedule.catch_up:
            notes.append(("WARN", f"{utc(due)} was missed: the service did not run then"))
            due = None
    if entry.running and schedule.overlap != "allow":
        if due is not None and schedule.overlap == "queue" and entry.queued is None:
            entry = replace(entry, queued=due)
        elif due is not None:
            notes.append(("WARN", f"{utc(due)} was skipped: an earlier run continues"))
        due = None
    elif entry.queued is not None:
        due, entry = entry.queued, replace(entry, queued=due)
    if due is None:
        return entry, None, notes
    run = new_run(due, now, owner)
    return replace(entry, running=(*entry.running, run)), run, notes
