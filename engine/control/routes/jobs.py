"""Routes and models for the jobs of projects: lists, bodies, retries and removal."""

import base64
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from engine.control.app import Routes
from engine.control.projects import known
from engine.control.schemas import QueryModel, StrictModel
from engine.job_store import Job, JobState, JobStore
from engine.timeline.record import utc

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

    @classmethod
    def of(cls, job: Job) -> "JobOut":
        """Return the response model of a job."""
        members = {name: getattr(job, name) for name in JobOut.model_fields}
        return cls(**members | {"added": utc(job.added / 1000), "due": utc(job.due / 1000)})


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

    @routes.get("/v1/projects/<project>/jobs", "viewer")
    async def jobs(project: str, query_args: JobsQuery) -> JobList:
        """List jobs."""
        listed, counts = await known(store_of(project), project).list(
            state=query_args.state, after=query_args.after, limit=query_args.limit
        )
        return JobList(
            waiting=counts.get("waiting", 0),
            running=counts.get("running", 0),
            dead=counts.get("dead", 0),
            jobs=[JobOut.of(each) for each in listed],
        )

    @routes.get("/v1/projects/<project>/jobs/<id>", "deployer")
    async def job(project: str, id: str) -> JobDetail:
        """Return a job with its body, which needs the role deployer: it can have data of users."""
        found = await known(store_of(project), project).find(id)
        body = found.body or b""
        encoded = None if found.text else base64.b64encode(body).decode()
        text = body.decode("utf-8", "replace") if found.text else None
        return JobDetail(**JobOut.of(found).model_dump(), body=text, base64=encoded)

    @routes.post("/v1/projects/<project>/jobs/retry", "deployer")
    async def retry(project: str, data: JobsRequest) -> JobsChanged:
        """Run jobs that wait or are dead now, with all their tries."""
        changed = await known(store_of(project), project).retry(data.ids)
        wake(project)
        return JobsChanged(changed=changed)

    @routes.post("/v1/projects/<project>/jobs/remove", "deployer")
    async def remove(project: str, data: JobsRemoval) -> JobsChanged:
        """Remove jobs. One that runs continues, and is not tried again."""
        return JobsChanged(changed=await known(store_of(project), project).remove(data.ids, data.state))

    return routes
