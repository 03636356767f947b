"""Routes and models for what runs without a client: jobs of projects, and their schedules."""

import base64
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import Field

from engine.control.app import Routes
from engine.control.projects import known
from engine.control.schemas import QueryModel, StrictModel
from engine.job_store import Job, JobState, JobStore
from engine.manifest.model import Project
from engine.manifest.schedules import MAX_PATH_CHARS
from engine.schedules.scheduler import PlannedSchedule, Scheduler, ScheduleResult

MAX_LISTED = 1000
JobId = Annotated[str, Field(max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(Job):
    """A job with its body: its text, or its bytes in base64."""

    body: str | None
    base64: str | None


class JobList(StrictModel):
    """Jobs in the order in which they were added, and the numbers of all jobs of the project."""

    waiting: int
    running: int
    dead: int
    jobs: list[Job]


class JobsQuery(QueryModel):
    """Which jobs to list: those in a state, after the job `after`, at most `limit`."""

    state: JobState | None = None
    after: JobId = ""
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 100


class JobsRequest(StrictModel):
    """Jobs by their ids; `null` stands for all dead ones."""

    ids: Annotated[list[JobId], Field(max_length=MAX_LISTED)] | None


class JobsRemoval(JobsRequest):
    """Jobs by their ids; `null` stands for all in a state."""

    state: Literal["waiting", "dead"] = "dead"


class JobsChanged(StrictModel):
    """The number of jobs that were changed."""

    changed: int


def blueprint(store_of: Callable[[str], JobStore | None], wake: Callable[[str], None]) -> Routes:
    """Return the routes. `store_of` returns the jobs of a project that is served, `wake` runs those due."""
    routes = Routes("jobs", __name__)
    base = "/v1/projects/<project>/jobs"

    @routes.get(base, "viewer")
    async def jobs(project: str, query_args: JobsQuery) -> JobList:
        """List jobs."""
        jobs, counts = await known(store_of(project), project).list(**query_args.model_dump())
        return JobList(**{"waiting": 0, "running": 0, "dead": 0} | counts, jobs=list(jobs))

    @routes.get(f"{base}/<id>", "deployer")
    async def job(project: str, id: str) -> JobDetail:
        """Return a job with its body, which needs the role deployer: it can have data of users."""
        members = asdict(await known(store_of(project), project).find(id))
        is_text, body = members.pop("text"), members.pop("body")
        text = body.decode("utf-8", "replace") if is_text else None
        encoded = None if is_text else base64.b64encode(body).decode()
        return JobDetail(**members, body=text, base64=encoded)

    @routes.post(f"{base}/retry", "deployer")
    async def retry(project: str, data: JobsRequest) -> JobsChanged:
        """Run jobs that wait or are dead now, with all their tries."""
        changed = await known(store_of(project), project).retry(data.ids)
        wake(project)
        return JobsChanged(changed=changed)

    @routes.post(f"{base}/remove", "deployer")
    async def remove(project: str, data: JobsRemoval) -> JobsChanged:
        """Remove jobs. One that runs continues, and is not tried again."""
        return JobsChanged(changed=await known(store_of(project), project).remove(data.ids, data.state))

    return routes


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


def schedule_blueprint(scheduler: Scheduler, served: Callable[[str], Project | None]) -> Routes:
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
