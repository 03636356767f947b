"""Routes and models for the schedules of projects: their state, runs on request, and pauses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from engine.control.app import Routes
from engine.control.projects import known
from engine.control.schemas import StrictModel
from engine.manifest.model import Project
from engine.manifest.schedules import MAX_PATH_CHARS
from engine.schedules.scheduler import PlannedSchedule, Scheduler, ScheduleResult


@dataclass(frozen=True, slots=True)
class ScheduleList:
    """The schedules of a project, in the order of the manifest.

    `active` is whether they run: in development, they do with `svc dev --schedules`.
    """

    active: bool
    schedules: list[PlannedSchedule]


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

    base = "/v1/projects/<project>/schedules"

    @routes.get(base, "viewer")
    async def schedules(project: str) -> ScheduleList:
        """List the schedules of a project, with their last results and next times."""
        return ScheduleList(scheduler.active, await scheduler.planned(known(served(project), project)))

    @routes.post(f"{base}/run", "deployer")
    async def run(project: str, data: ScheduleRequest) -> ScheduleResult:
        """Run a schedule now, paused or not, and return its end."""
        return await scheduler.run_now(known(served(project), project), data.resource, data.path)

    @routes.put(f"{base}/paused", "deployer")
    async def pause(project: str, data: PauseRequest) -> ScheduleList:
        """Pause or resume a schedule. Occurrences during the pause are not caught up."""
        await scheduler.pause(known(served(project), project), **data.model_dump())
        return await schedules(project)

    return routes
