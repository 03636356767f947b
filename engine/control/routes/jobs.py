"""Routes and models for the jobs of projects: lists, bodies, retries and removal."""

import base64
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from engine.control.app import Routes
from engine.control.projects import known
from engine.control.schemas import QueryModel, StrictModel
from engine.job_store import JobState, JobStore

MAX_LISTED = 1000
JobId = Annotated[str, Field(max_length=100)]


class JobOut(StrictModel):
    """A job: a request that svc sends to `path` of `resource`, with `size` bytes of body.

    `due` is the time of the next try, the end of the claim of a running one, or the death of a dead one.
    `request` is the id of the last try that failed, and `error` why.
    """

    id: str
    resource: str
    path: str
    key: str | None
    state: JobState
    added: str
    due: str
    tries: int
    max_tries: int
    request: str
    error: str
    size: int


class JobDetail(JobOut):
    """A job with its body: its text, or its bytes in base64."""

    body: str | None
    base64: str | None


class JobList(StrictModel):
    """Jobs in the order in which they were added, and the numbers of all jobs of the project."""

    waiting: int
    running: int
    dead: int
    jobs: list[JobOut]


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
        listed, counts = await known(store_of(project), project).list(**query_args.model_dump())
        jobs = [JobOut.from_value(each) for each in listed]
        return JobList(**{"waiting": 0, "running": 0, "dead": 0} | counts, jobs=jobs)

    @routes.get(f"{base}/<id>", "deployer")
    async def job(project: str, id: str) -> JobDetail:
        """Return a job with its body, which needs the role deployer: it can have data of users."""
        found = await known(store_of(project), project).find(id)
        body = found.body or b""
        encoded = None if found.text else base64.b64encode(body).decode()
        text = body.decode("utf-8", "replace") if found.text else None
        return JobDetail.from_value(found, body=text, base64=encoded)

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
