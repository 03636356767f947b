"""Routes and models for the schedules of projects: their state, runs on request, and pauses."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import Field

from engine.control.app import Routes, require
from engine.control.projects import known
from engine.control.schemas import StrictModel
from engine.manifest.model import Project
from engine.manifest.schedules import MAX_PATH_CHARS, Overlap
from engine.schedules.scheduler import Planned, Scheduler
from engine.schedules.state import Result
from engine.timeline.record import utc


class ScheduleResult(StrictModel):
    """The end of a run. `request` is the id of its request, `due` the occurrence, `started` when it began.

    `status` is `null` if there was no response. An `interrupted` run did not end: its process was killed.
    """

    request: str
    due: str
    started: str
    state: Literal["succeeded", "failed", "interrupted"]
    status: int | None
    seconds: float

    @classmethod
    def of(cls, result: Result) -> "ScheduleResult":
        """Return the response model of a result."""
        members = asdict(result) | {"due": utc(result.due), "started": utc(result.started)}
        return cls(request=members.pop("id"), **members)


class ScheduleOut(StrictModel):
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

    @classmethod
    def of(cls, planned: Planned) -> "ScheduleOut":
        """Return the response model of a schedule."""
        entry = planned.entry
        return cls(
            resource=planned.resource,
            **asdict(planned.schedule),
            paused=entry.paused,
            next=utc(planned.next) if planned.next is not None else None,
            running=len(entry.running),
            last=ScheduleResult.of(entry.last) if entry.last is not None else None,
        )


class ScheduleList(StrictModel):
    """The schedules of a project, in the order of the manifest.

    `active` is whether they run: in development, they do with `svc dev --schedules`.
    """

    active: bool
    schedules: list[ScheduleOut]


class ScheduleRequest(StrictModel):
    """A schedule: its resource and its path."""

    resource: Annotated[str, Field(max_length=100)]
    path: Annotated[str, Field(max_length=MAX_PATH_CHARS)]


class PauseRequest(ScheduleRequest):
    """A schedule, and whether it has no occurrences from now on."""

    paused: bool


def blueprint(scheduler: Scheduler, served: Callable[[str], Project | None]) -> Routes:
    """Return the routes. `served` returns a project as it is served."""
    routes = Routes("schedules", __name__)

    async def listed(project: Project) -> ScheduleList:
        schedules = [ScheduleOut.of(each) for each in await scheduler.planned(project)]
        return ScheduleList(active=scheduler.active, schedules=schedules)

    @routes.get("/v1/projects/<project>/schedules")
    async def schedules(project: str) -> ScheduleList:
        """List the schedules of a project, with their last results and next times."""
        require(project, "viewer")
        return await listed(known(served(project), project))

    @routes.post("/v1/projects/<project>/schedules/run")
    async def run(project: str, data: ScheduleRequest) -> ScheduleResult:
        """Run a schedule now, paused or not, and return its end."""
        require(project, "deployer")
        found = known(served(project), project)
        return ScheduleResult.of(await scheduler.run_now(found, data.resource, data.path))

    @routes.put("/v1/projects/<project>/schedules/paused")
    async def pause(project: str, data: PauseRequest) -> ScheduleList:
        """Pause or resume a schedule. Occurrences during the pause are not caught up."""
        require(project, "deployer")
        found = known(served(project), project)
        await scheduler.pause(found, data.resource, data.path, paused=data.paused)
        return await listed(found)

    return routes
