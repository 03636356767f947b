"""Route for a project's current state: addresses, health and request rates.

Cheap enough to poll each second: all data is in memory, except the sizes that Doors measure.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from engine.certificates.state import CertificateState
from engine.control.app import Routes
from engine.control.projects import Projects, known
from engine.control.routes.usage import MemorySource, MemoryState, QuotaOut, QuotaSource
from engine.control.schemas import QueryModel, StrictModel
from engine.deploy.serving import DoorUsage, ResourceStatus, State
from engine.door import Door, Stored
from engine.errors import SvcError
from engine.lane import BuildFailed, Diagnostic
from engine.manifest.model import Project, Resource, host_label
from engine.schedules.scheduler import PlannedSchedule
from engine.service.domains import DomainState, Names
from engine.timeline.rates import WINDOW_SECONDS, Rate, RateMeter, RateWindow

if TYPE_CHECKING:
    from engine.dev.project import DevProject

Kind = Literal["dev", "service"]


class StateQuery(QueryModel):
    """Time window of the rates, in seconds (maximum 60)."""

    seconds: int = Field(WINDOW_SECONDS, ge=1, le=WINDOW_SECONDS)


class FailureOut(StrictModel):
    """Why a resource's last build failed or why it cannot run.

    `output` is the compiler's output. `file` (relative to the project's folder), `line` and `column` are the
    position of the first error; empty and 0 if it is unknown.
    """

    message: str
    hint: str
    output: str
    file: str
    line: int
    column: int


class ResourceDomain(StrictModel):
    """A custom domain of a resource, its state, and what the last check of it found."""

    name: str
    state: DomainState
    detail: str
    certificate: CertificateState | None


class ResourceState(StrictModel):
    """The state of a resource.

    `address` is its own URL, `null` for a private one. `serves` is whether a version of it responds, possibly
    an earlier build. `build_seconds` is the duration of the last build; a service does not build. `requests`
    and `records` (sent to the telemetry Door) are per second, `failures` is the share of responses with
    status 500 or above, `p95_ms` the 95th percentile (within 7 %), `peak_memory` the maximum bytes of one
    request; both are `null` without requests. `domains` are its custom ones; none in
    development. `history` is the number of requests in each second of the
    window, oldest first; empty without activity.
    """

    name: str
    address: str | None
    state: State
    error: FailureOut | None
    serves: bool
    build_seconds: float | None
    requests: float
    failures: float
    p95_ms: float | None
    peak_memory: int | None
    records: float
    domains: list[ResourceDomain]
    schedules: list[PlannedSchedule]
    history: list[int]


class MountState(StrictModel):
    """A mount and its requests per second."""

    resource: str
    pattern: str
    target: str
    requests: float


class DoorUser(StrictModel):
    """A resource that called a Door, and the number of its calls since the engine started."""

    resource: str
    calls: int


class DoorState(StrictModel):
    """A Door: the things it stores, their bytes and those of their history, and its records per second.

    `unit` is the singular of what `count` or `records` counts, or empty. Members that do not apply or cannot
    be measured now are `null`. `users` are in the order of the resources.
    """

    name: str
    purpose: str
    variables: list[str]
    unit: str
    count: int | None
    bytes: int | None
    log_bytes: int | None
    records: float | None
    users: list[DoorUser]


class ProjectState(StrictModel):
    """The state of a project. `seconds` is the actual window of the rates, shorter after a start.

    `address` is the URL of its front, `null` if it has none. `memory` is that of the service, `quota`
    that of the project; both are `null` in development.
    """

    project: str
    kind: Kind
    address: str | None
    seconds: float
    resources: list[ResourceState]
    mounts: list[MountState]
    doors: list[DoorState]
    memory: MemoryState | None
    quota: QuotaOut | None


SchedulesOf = Callable[[Project], list[PlannedSchedule]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSource:
    """The running projects, by name.

    `project` returns a project as it is served, `status` that of one of its resources, `rates` is `None`
    before its first activity, and `uses` has the call counts of its Doors. `domains` are the declared names,
    and `certificate` takes a project and one of them. `schedules` returns those of a project with their
    state. `url_of` returns the URL of a resource, or of the project without one; it has no path.
    """

    kind: Kind
    project: Callable[[str], Project | None]
    status: Callable[[str, str], ResourceStatus]
    rates: Callable[[str], RateMeter | None]
    uses: Callable[[str], DoorUsage]
    url_of: Callable[[str, str], str]
    schedules: SchedulesOf
    memory: MemorySource = lambda: None
    quota: QuotaSource = lambda project: None
    domains: Callable[[str], Names] = lambda project: {}
    certificate: Callable[[str, str], CertificateState | None] = lambda project, name: None


def dev_status(
    dev: "DevProject", rates: RateMeter, uses: DoorUsage, port: int, schedules: SchedulesOf
) -> StatusSource:
    """Return the status of a project in development, served on a local port."""
    return StatusSource(
        kind="dev",
        project=lambda name: dev.project if name == dev.project.name else None,
        status=lambda _, resource: dev.status(resource),
        rates=lambda _: rates,
        uses=lambda _: uses,
        url_of=partial(dev_url, port),
        schedules=schedules,
    )


def dev_url(port: int, project: str, resource: str = "") -> str:
    """Return the URL of a resource in development, or that of the project without one."""
    subdomain = f"{host_label(project, resource)}." if resource else ""
    return f"http://{subdomain}localhost:{port}"


def blueprint(engine: StatusSource, projects: Projects, doors: Sequence[Door]) -> Routes:
    """Return the route."""
    routes = Routes("state", __name__)

    @routes.get("/v1/projects/<project>/state", "viewer")
    async def state(project: str, query_args: StateQuery) -> ProjectState:
        """Return the state of a project's resources, mounts and Doors. Requires the role viewer."""
        served = known(engine.project(project), project)
        schedules = engine.schedules(served)
        rates, uses = engine.rates(project), engine.uses(project)
        window = rates.window(query_args.seconds) if rates is not None else RateWindow(0.0, {}, {})
        data = projects.data_dir(project)
        measured = await asyncio.to_thread(lambda: [door.measure(data) for door in doors])
        stored = {name: size for sizes in measured for name, size in sizes.items()}
        records = round(sum(rate.records for rate in window.resources.values()), 4)
        return ProjectState(
            project=project,
            kind=engine.kind,
            address=f"{engine.url_of(project, '')}/" if served.front is not None else None,
            seconds=round(window.seconds, 1),
            resources=[
                _resource(engine, project, each, window.resources.get(each.name, Rate()), schedules)
                for each in served.resources.values()
            ],
            mounts=[
                MountState.from_value(
                    mount,
                    resource=each.name,
                    requests=round(window.mounts.get((each.name, mount.pattern), 0.0), 4),
                )
                for each in served.resources.values()
                for mount in each.mounts
            ],
            doors=[
                DoorState.from_value(
                    each,
                    records=records if each.unit == "record" else None,
                    users=[
                        DoorUser(resource=name, calls=count)
                        for name in served.resources
                        if (count := uses[each.name, name])
                    ],
                    **asdict(stored.get(each.name, Stored())),
                )
                for each in doors
            ],
            memory=engine.memory(),
            quota=QuotaOut.from_value(quota) if (quota := engine.quota(project)) is not None else None,
        )

    return routes


def _failure(error: SvcError) -> FailureOut:
    output, first = "", Diagnostic("")
    if isinstance(error, BuildFailed):
        output = error.output_text
        first = next((each for each in error.diagnostics if each.file), first)
    return FailureOut.from_value(first, message=error.public_message, hint=error.hint, output=output)


def _resource(
    engine: StatusSource, project: str, resource: Resource, rate: Rate, schedules: list[PlannedSchedule]
) -> ResourceState:
    status, domains = engine.status(project, resource.name), engine.domains(project)
    return ResourceState.from_value(
        rate,
        name=resource.name,
        address=f"{engine.url_of(project, resource.name)}/" if resource.public else None,
        state=status.state,
        error=_failure(status.error) if status.error is not None else None,
        serves=status.serves,
        build_seconds=status.seconds,
        requests=round(rate.requests, 4),
        failures=round(rate.failures, 4),
        p95_ms=rate.p95_ns / 1e6 if rate.p95_ns is not None else None,
        records=round(rate.records, 4),
        domains=[
            ResourceDomain.from_value(domains[name], certificate=engine.certificate(project, name))
            for name in resource.domains
            if name in domains
        ],
        schedules=[each for each in schedules if each.resource == resource.name],
    )
