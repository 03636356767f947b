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

    async def listed(project: Project) -> ScheduleList:
        return ScheduleList(scheduler.active, await scheduler.planned(project))

    @routes.get("/v1/projects/<project>/schedules", "viewer")
    async def schedules(project: str) -> ScheduleList:
        """List the schedules of a project, with their last results and next times."""
        return await listed(known(served(project), project))

    @routes.post("/v1/projects/<project>/schedules/run", "deployer")
    async def run(project: str, data: ScheduleRequest) -> ScheduleResult:
        """Run a schedule now, paused or not, and return its end."""
        found = known(served(project), project)
        return await scheduler.run_now(found, data.resource, data.path)

    @routes.put("/v1/projects/<project>/schedules/paused", "deployer")
    async def pause(project: str, data: PauseRequest) -> ScheduleList:
        """Pause or resume a schedule. Occurrences during the pause are not caught up."""
        found = known(served(project), project)
        await scheduler.pause(found, data.resource, data.path, paused=data.paused)
        return await listed(found)

    return routes
