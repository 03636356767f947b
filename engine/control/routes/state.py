"""How a Project is doing right now, over the control API: addresses, health, rates. Owns this route.

Made to be asked each second: all of it is in memory but for what the Doors keep, and no timeline is read.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field
from quart import Blueprint
from quart_schema import validate_querystring, validate_response

from engine.control.app import require
from engine.control.projects import Projects, unknown_project
from engine.deploy.doors import DoorUsage
from engine.deploy.serving import ServingTable
from engine.deploy.status import ResourceStatus, State
from engine.dev.project import DevProject
from engine.errors import SvcError
from engine.lane import BuildFailed
from engine.manifest.model import Project, Resource
from engine.timeline.rates import WINDOW_SECONDS, Rate, RateMeter, RateWindow

Kind = Literal["dev", "service"]
Measure = Callable[[Path], tuple[int, int] | None]
"""Returns how many things a Door keeps for a Project, and in how many bytes, by the folder of its data."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StateQuery(_Shape):
    """How far back rates go: at most a minute."""

    seconds: int = Field(WINDOW_SECONDS, ge=1, le=WINDOW_SECONDS)


class FailureOut(_Shape):
    """What a Resource's last build failed of, or why it can not run; `said` is what the compiler said."""

    message: str
    hint: str
    said: str


class ResourceState(_Shape):
    """How a Resource is doing.

    `address` is its own, `null` for a private one. `serves` tells whether a version of it answers, maybe the
    last that built. `built_seconds` is what the last build took; on a service nothing is built. `requests`
    and `records` (sent to the telemetry Door) are per second, `failures` is the share of the requests that
    were answered with 500 and up, `p95_ms` the time that 95 of 100 stayed below (within 7 %), `peak_memory`
    the most bytes that one had; both are `null` where there was none.
    """

    name: str
    address: str | None
    state: State
    error: FailureOut | None
    serves: bool
    built_seconds: float | None
    requests: float
    failures: float
    p95_ms: float | None
    peak_memory: int | None
    records: float


class MountState(_Shape):
    """A mount, and how many requests a second take it."""

    resource: str
    pattern: str
    target: str
    requests: float


class DoorUser(_Shape):
    """A Resource whose guests asked a Door, and how often since the engine was started."""

    resource: str
    asked: int


class DoorState(_Shape):
    """A Door: what it keeps (tables), in how many bytes, and the records a second that it takes (telemetry).

    What a Door has not, or what can not be told now, is `null`. `users` are in the order of the Resources.
    """

    name: str
    tables: int | None
    bytes: int | None
    records: float | None
    users: list[DoorUser]


class ProjectState(_Shape):
    """How a Project is doing. `seconds` is the time that rates are of: less than asked for after a start.

    `address` is where people begin: that of the front in development, on a service that of the first public
    Resource with mounts, or else of the first public one; `null` where nothing is public.
    """

    project: str
    kind: Kind
    address: str | None
    seconds: float
    resources: list[ResourceState]
    mounts: list[MountState]
    doors: list[DoorState]


class StatusSource(Protocol):
    """The Projects that run, as the one that runs them knows them."""

    kind: Kind

    def project(self, name: str) -> Project:
        """Return a Project as it is served. Raises `NotFound`."""
        ...

    def status(self, project: str, resource: str) -> ResourceStatus:
        """Return the status of a Resource."""
        ...

    def rates(self, project: str) -> RateMeter | None:
        """Return a Project's rates, if anything has happened in it."""
        ...

    def uses(self, project: str) -> DoorUsage:
        """Return how often a Project's Doors were asked."""
        ...

    def address(self, project: Project, resource: str) -> str:
        """Return the own address of a public Resource."""
        ...

    def front(self, project: Project) -> str | None:
        """Return where people begin."""
        ...


class DevStatus:
    """A Project in the hands of its developer, served on a port of this machine."""

    kind: Kind = "dev"

    def __init__(self, dev: DevProject, rates: RateMeter, uses: DoorUsage, port: int) -> None:
        self._name = dev.project.name
        self._dev = dev
        self._rates = rates
        self._uses = uses
        self._port = port

    def project(self, name: str) -> Project:
        """Return the Project."""
        if name != self._name:
            raise unknown_project(name)
        return self._dev.project

    def status(self, project: str, resource: str) -> ResourceStatus:
        """Return the status of a Resource."""
        return self._dev.status(resource)

    def rates(self, project: str) -> RateMeter:
        """Return its rates."""
        return self._rates

    def uses(self, project: str) -> DoorUsage:
        """Return how often its Doors were asked."""
        return self._uses

    def address(self, project: Project, resource: str) -> str:
        """Return an address below localhost."""
        return f"http://{resource}--{project.name}.localhost:{self._port}/"

    def front(self, project: Project) -> str | None:
        """Return the bare address, if anything answers there."""
        return f"http://localhost:{self._port}/" if project.front is not None else None


class ServiceStatus:
    """What is live on a service."""

    kind: Kind = "service"

    def __init__(
        self,
        site: ServingTable,
        rates: Mapping[str, RateMeter],
        uses_of: Callable[[str], DoorUsage],
        url_of: Callable[[str, str], str],
    ) -> None:
        """`rates` is by Project; `url_of` returns the address of a Project's Resource."""
        self._site = site
        self._rates = rates
        self._uses_of = uses_of
        self._url_of = url_of

    def project(self, name: str) -> Project:
        """Return what is live of a Project."""
        found = self._site.project(name)
        if found is None:
            raise unknown_project(name)
        return found

    def status(self, project: str, resource: str) -> ResourceStatus:
        """Return the status of a Resource."""
        return self._site.status(project, resource)

    def rates(self, project: str) -> RateMeter | None:
        """Return a Project's rates."""
        return self._rates.get(project)

    def uses(self, project: str) -> DoorUsage:
        """Return how often a Project's Doors were asked."""
        return self._uses_of(project)

    def address(self, project: Project, resource: str) -> str:
        """Return an address below the service's domain."""
        return f"{self._url_of(project.name, resource)}/"

    def front(self, project: Project) -> str | None:
        """Return the address of the Resource that would be the front."""
        return self.address(project, project.front.name) if project.front is not None else None


def blueprint(engine: StatusSource, projects: Projects, doors: Mapping[str, Measure | None]) -> Blueprint:
    """Return the route; `doors` has each Door's name, and what measures its tables where it has some."""
    routes = Blueprint("state", __name__)

    @routes.get("/v1/projects/<project>/state")
    @validate_querystring(StateQuery)
    @validate_response(ProjectState)
    async def state(project: str, query_args: StateQuery) -> ProjectState:
        """Say how the Resources, mounts and Doors of a Project are doing. Needs the role viewer."""
        require(project, "viewer")
        served = engine.project(project)
        rates = engine.rates(project)
        window = rates.window(query_args.seconds) if rates is not None else RateWindow(0.0, {}, {})
        uses = engine.uses(project)
        held = await asyncio.to_thread(_measure, doors, projects.data_dir(project))
        return ProjectState(
            project=project,
            kind=engine.kind,
            address=engine.front(served),
            seconds=round(window.seconds, 1),
            resources=[
                _resource(
                    each,
                    engine.address(served, each.name) if each.public else None,
                    engine.status(project, each.name),
                    window.resources.get(each.name, Rate()),
                )
                for each in served.resources.values()
            ],
            mounts=[
                MountState(
                    resource=each.name,
                    pattern=mount.pattern,
                    target=mount.target,
                    requests=_rounded(window.mounts.get((each.name, mount.pattern), 0.0)),
                )
                for each in served.resources.values()
                for mount in each.mounts
            ],
            doors=[
                _door(name, doors[name] is not None, held.get(name), window, _users(name, served, uses))
                for name in doors
            ],
        )

    return routes


def _measure(doors: Mapping[str, Measure | None], data: Path) -> dict[str, tuple[int, int] | None]:
    return {name: measure(data) for name, measure in doors.items() if measure is not None}


def _failure(error: SvcError) -> FailureOut:
    said = error.output_text if isinstance(error, BuildFailed) else ""
    return FailureOut(message=error.public_message, hint=error.hint, said=said)


def _resource(resource: Resource, address: str | None, status: ResourceStatus, rate: Rate) -> ResourceState:
    error = status.error
    return ResourceState(
        name=resource.name,
        address=address,
        state=status.state,
        error=_failure(error) if error is not None else None,
        serves=status.serves,
        built_seconds=status.seconds,
        requests=_rounded(rate.requests),
        failures=_rounded(rate.failures),
        p95_ms=rate.p95_ns / 1e6 if rate.p95_ns is not None else None,
        peak_memory=rate.peak_memory,
        records=_rounded(rate.records),
    )


def _users(door: str, served: Project, uses: DoorUsage) -> list[DoorUser]:
    asked = ((name, uses[door, name]) for name in served.resources)
    return [DoorUser(resource=name, asked=count) for name, count in asked if count]


def _door(
    name: str, measured: bool, held: tuple[int, int] | None, window: RateWindow, users: list[DoorUser]
) -> DoorState:
    """Return the shape of a Door; one whose tables are not measured takes records."""
    tables, size = held if held is not None else (None, None)
    records = None if measured else _rounded(sum(rate.records for rate in window.resources.values()))
    return DoorState(name=name, tables=tables, bytes=size, records=records, users=users)


def _rounded(rate: float) -> float:
    return round(rate, 4)
