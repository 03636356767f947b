"""Publications of projects, their versions and open Doors, and the table of projects that one process serves.

A publication is prepared first and activated in one step. Versions of unchanged resources are reused.
"""

import asyncio
import hmac
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from engine.artifact import Artifact, ComponentArtifact, StoredArtifact
from engine.bucket.blobs import FolderBlobs
from engine.door import DOMAIN, Door, DoorContext, DoorStorage, LimitsStorage, LogEntry, OpenDoor
from engine.errors import SvcError, internal_error
from engine.gateway.on_demand import LoadedVersions, OnDemand
from engine.gateway.routes import BuiltVersion, NotReady, Outdated, PendingBuild, RouteTable, Version
from engine.gateway.static.responder import StaticResponder
from engine.job_store import JobStore
from engine.lane import BuildMode, ignore_progress
from engine.manifest.egress import ProjectCollector
from engine.manifest.model import Project, Resource, kind_of
from engine.quota import NO_QUOTA, Quota
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record, StructuredRecord
from engine.wasm.compile.component_file import error_context
from engine.wasm.execution.runner import NO_DOORS, Guest, Runner
from engine.wasm.outbound.door_calls import DoorBinding

DoorUsage = Counter[tuple[str, str]]
"""Number of requests to Doors, by Door and resource."""


class Doors:
    """All open Doors of one project. Create it on the event loop that runs the guests."""

    def __init__(
        self,
        doors: Sequence[Door],
        project: str,
        folder: Path,
        timeline: TimelineBus,
        storage: DoorStorage | None = None,
        *,
        on_work: Callable[[str], None] = lambda project: None,
    ) -> None:
        """`folder` has the project's data; each Door uses the subfolder of its name.

        Without `storage`, blobs are in the folder, and signatures are valid as long as this process runs.
        `on_work` is called with the project when a job may wait.
        """
        log, measure = _DoorLog(timeline), timeline.measurements.append
        storage = storage or DoorStorage(FolderBlobs(folder), secrets.token_bytes(32))
        self.uses = DoorUsage()
        opened: dict[str, OpenDoor] = {}
        for door in doors:
            place = DoorContext(project, folder / door.name, log, measure, storage)
            context = replace(place, sibling=opened.__getitem__, on_work=partial(on_work, project))
            opened[door.name] = door.open(context)
        self.jobs = next((each for each in opened.values() if isinstance(each, JobStore)), None)
        self._storing = [each for each in opened.values() if isinstance(each, LimitsStorage)]
        self.open: Mapping[str, DoorBinding] = {
            door.name: DoorBinding(opened[door.name], door.max_body, door.streams, door.name, self.uses)
            for door in doors
        }
        self.environment: Mapping[str, str] = {
            variable: f"http://{door.name}.{DOMAIN}" for door in doors for variable in door.variables
        }

    def limit(self, quota: Quota) -> None:
        for door in self._storing:
            door.limit(quota)

    async def aclose(self) -> None:
        """Close all Doors, after the last guest has finished."""
        await asyncio.gather(*(door.door.aclose() for door in self.open.values()))


class _DoorLog:
    """Appends log entries of Doors from any thread to the timeline, on the event loop.

    Entries that a Door logs before its response are in the timeline before the guest receives the response.
    """

    def __init__(self, timeline: TimelineBus) -> None:
        self._timeline = timeline
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waiting: list[LogEntry] = []

    def __call__(self, entry: LogEntry) -> None:
        if threading.get_ident() == self._thread:
            self._timeline.append(_record(entry))
            return
        with self._lock:
            self._waiting.append(entry)
            first = len(self._waiting) == 1
        if first:
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            entries, self._waiting = self._waiting, []
        for entry in entries:
            self._timeline.append(_record(entry))


def _record(entry: LogEntry) -> Record:
    caller = entry.caller
    if entry.grant is not None:
        return PlatformRecord(
            entry.time_ns, caller.resource, entry.severity, entry.body, caller.request_id, grant=entry.grant
        )
    return StructuredRecord(
        time_ns=entry.time_ns,
        request_id=caller.request_id,
        trace_id=caller.trace_id,
        span_id=caller.span_id,
        resource=caller.resource,
        severity=entry.severity,
        body=entry.body,
        attributes=dict(entry.attributes),
    )


class Tenants:
    """The projects of this process by name; the empty name is the service itself."""

    def __init__(
        self,
        doors: Sequence[Door],
        data: Callable[[str], Path],
        on_timeline: Callable[[str, TimelineBus], object],
        storage: DoorStorage | None = None,
        on_work: Callable[[str], None] = lambda project: None,
    ) -> None:
        """`data` returns the data folder of a project; `on_timeline` is called with each new timeline.

        `storage` is that of the service, which all projects share. `on_work` is called with a project in
        which a job may wait.
        """
        self._storage = storage
        self._kinds = doors
        self._data = data
        self._on_timeline = on_timeline
        self._on_work = on_work
        self._timelines: dict[str, TimelineBus] = {}
        self._doors: dict[str, Doors] = {}
        self._removed: set[str] = set()
        self._removals: dict[str, str] = {}

    def timeline(self, project: str) -> TimelineBus:
        """Return a project's timeline."""
        if project in self._removed:
            return TimelineBus()
        if project not in self._timelines:
            self._timelines[project] = TimelineBus()
            self._on_timeline(project, self._timelines[project])
        return self._timelines[project]

    def doors(self, project: str) -> Doors:
        """Return a project's open Doors. Raises `SvcError` for a removed project."""
        if project in self._removed:
            raise SvcError(f"the project {project} was removed", "Deploy it again.", code="not-found")
        if project not in self._doors:
            folder, timeline, storage = self._data(project), self.timeline(project), self._storage
            if storage is not None and (removal := self._removals.get(project)):
                # A removed project of this name has made signatures with the other secret.
                own = hmac.digest(storage.secret, removal.encode(), "sha256")
                storage = replace(storage, secret=own)
            self._doors[project] = Doors(
                self._kinds, project, folder, timeline, storage, on_work=self._on_work
            )
        return self._doors[project]

    def open_doors(self, project: str) -> Mapping[str, DoorBinding]:
        return self.doors(project).open if project not in self._removed else {}

    def uses(self, project: str) -> DoorUsage:
        """Return the mutable usage counts of a project's Doors."""
        return self._doors[project].uses if project in self._doors else DoorUsage()

    async def remove(self, project: str) -> None:
        """Close a project. Requests that have not ended get no Doors, and their records are dropped."""
        self._removed.add(project)
        self._timelines.pop(project, None)
        if (doors := self._doors.pop(project, None)) is not None:
            await doors.aclose()

    def reopen(self, project: str, removal: str = "") -> None:
        """Permit Doors and records of a project that is deployed again, after its last `removal` if any."""
        self._removed.discard(project)
        if removal:
            self._removals[project] = removal

    async def aclose(self) -> None:
        """Close every Door, after the last guest has finished."""
        for doors in self._doors.values():
            await doors.aclose()


BuildResult = Artifact | StoredArtifact | SvcError | None
"""The artifact of a resource, or its build error; `None` during the first build."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A project to serve, with the outcome of each resource's build.

    `deployment` is the guests' `SVC_DEPLOYMENT`. `secrets` are the values of the secrets that resources
    declare, by name. `quota` is that of the whole service, not of a process. Requests wait
    for the next part of `outdated` resources, whose files were saved. `domains` are the custom domains that
    reach this service; `None` in development, where all are served without redirects. A `removed` project is
    not served any more. `removal` is the id of the last removal of a project of this name, if there was one.
    """

    project: Project
    parts: Mapping[str, BuildResult]
    deployment: str = "dev"
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    quota: Quota = NO_QUOTA
    _: KW_ONLY
    outdated: frozenset[str] = frozenset()
    domains: Collection[str] | None = None
    removed: bool = False
    removal: str = ""


MAX_LOADING = 4
"""Maximum number of compiled components that are loaded at the same time."""


@dataclass(frozen=True, slots=True)
class VersionFactory:
    """Creates versions in this process.

    `doors_of` returns a project's open Doors. `unpack` returns the artifact of a package, verified if it is
    called with true. Versions of stored artifacts are loaded on demand.
    """

    runner: Runner
    mode: BuildMode
    report: Callable[[str], None]
    doors_of: Callable[[str], Doors]
    _: KW_ONLY
    unpack: Callable[[str, bool], Awaitable[Artifact]] | None = None
    loaded: LoadedVersions = field(default_factory=LoadedVersions)
    loading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LOADING))

    def create_on_demand(
        self, publication: Publication, resource: Resource, artifact: StoredArtifact
    ) -> OnDemand:
        """Return a version that is not loaded yet."""

        async def load(first: bool) -> BuiltVersion:
            assert self.unpack is not None
            if kind_of(resource.lane) != "component":
                return await self.create(publication, resource, await self.unpack(artifact.package, first))
            async with self.loading:
                if await asyncio.to_thread(self.runner.is_compiled, artifact.digest):
                    unpacked = await self.unpack(artifact.package, False)  # The machine code suffices.
                    return await self.create(publication, resource, unpacked)
            # A compilation delays no load.
            return await self.create(publication, resource, await self.unpack(artifact.package, True))

        return OnDemand(f"resource {resource.name} of {publication.project.name}", load, self.loaded)

    async def create(self, publication: Publication, resource: Resource, artifact: Artifact) -> BuiltVersion:
        """Return a version that serves the artifact. Raises `SvcError` if a component is rejected."""
        if not isinstance(artifact, ComponentArtifact):
            return await asyncio.to_thread(StaticResponder, artifact, resource)
        doors = self.doors_of(publication.project.name)
        secrets = publication.secrets
        environment = {name: secrets[name] for name in resource.secrets if name in secrets} | {
            "SVC_PROJECT": publication.project.name,
            "SVC_RESOURCE": resource.name,
            "SVC_DEPLOYMENT": publication.deployment,
            "SVC_MEMORY_LIMIT_MB": str(resource.memory_limit_mb),
            **doors.environment,
        }
        return await self._guest(resource, artifact, environment, doors.open)

    def enforce(self, project: str, quota: Quota) -> None:
        """Enforce a quota from the next request on."""
        active = self.runner.quotas.active.get(project)
        before = active.quota if active is not None else NO_QUOTA
        if (quota.storage_mb, quota.files_mb) != (before.storage_mb, before.files_mb):
            self.doors_of(project).limit(quota)
        self.runner.quotas.set(project, quota)

    async def evaluate(self, project: str, resource: Resource, artifact: ComponentArtifact) -> str | None:
        """Run an artifact once without network and Doors; return why that failed with its output, or `None`.

        Raises `SvcError` if the component is rejected.
        """
        offline = replace(resource, egress=())
        guest = await self._guest(offline, artifact, {"SVC_PROJECT": project}, NO_DOORS)
        return await guest.evaluate()

    async def _guest(
        self,
        resource: Resource,
        artifact: ComponentArtifact,
        environment: dict[str, str],
        doors: Mapping[str, DoorBinding],
    ) -> Guest:
        # All saves share the compiled dev loader, so slower compilation to better code pays off.
        fast = self.mode == "dev" and artifact.script is None
        # A snapshot is made in the background.
        report = self.report if artifact.snapshot is None else ignore_progress
        with error_context(resource.name):
            return await self.runner.guest(
                resource, artifact.snapshot or artifact, environment, fast=fast, report=report, doors=doors
            )


_log = logging.getLogger("svc.server")
State = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """Builds of a resource in development. `error` and `seconds` belong to the last finished one."""

    queued: bool = False
    running: bool = False
    error: SvcError | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """State of a resource.

    `error` is why its last build failed or why it cannot run. `serves` is true if any version answers
    requests, including an older one. `seconds` is the duration of the last build, `None` if unknown.
    """

    state: State
    error: SvcError | None
    serves: bool
    seconds: float | None = None


_NO_BUILDS = BuildStatus()


@dataclass(frozen=True, slots=True)
class _ServedResource:
    inputs: tuple[Resource, Artifact | StoredArtifact, str, tuple[str | None, ...]]
    version: BuiltVersion | OnDemand


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A publication that can be activated: its routes, and the versions behind them by resource."""

    publication: Publication
    routes: RouteTable
    versions: Mapping[str, Version]
    served: Mapping[str, _ServedResource]


def _pending_build(version: Version | None) -> PendingBuild | None:
    if isinstance(version, NotReady):
        return version.first_build
    return version.build if isinstance(version, Outdated) else None


class ServingTable:
    """The projects that a process serves. Use on one event loop."""

    def __init__(self, versions: VersionFactory, domain: str, *, front: bool) -> None:
        """With `front`, the front of the only project answers at the bare domain."""
        self.versions = versions
        self._domain = domain
        self._front = front
        self._live: dict[str, PreparedProject] = {}
        self.on_activate: Callable[[str], None] | None = None
        """Called with the name of each project that was activated."""
        self._routes: RouteTable | None = None

    @property
    def routes(self) -> RouteTable:
        """The routes of all projects."""
        if self._routes is None:
            self._routes = RouteTable.merge(each.routes for each in self._live.values())
        return self._routes

    async def prepare(self, publication: Publication, *, lenient: bool = False) -> PreparedProject:
        """Create the versions of a publication without serving it.

        Raises `SvcError` if a resource cannot run, or another project has one of its addresses. With
        `lenient` it does not: a resource that cannot run answers "not ready", and one of a stored artifact is
        only loaded if it replaces a loaded one.
        """
        served: dict[str, _ServedResource] = {}
        versions: dict[str, Version] = {}
        project = publication.project.name
        for name, resource in publication.project.resources.items():
            part = publication.parts.get(name)
            version: BuiltVersion | OnDemand
            if part is None:
                version, before = NotReady(first_build=PendingBuild()), self._version(project, name)
                if isinstance(before, NotReady) and before.first_build is not None:
                    version = before
            elif isinstance(part, SvcError):
                version = NotReady(part)
            else:
                try:
                    served[name] = await self._serve(publication, resource, part, lenient=lenient)
                    version = served[name].version
                except SvcError as error:
                    if not lenient:
                        raise
                    version = NotReady(error)
                except Exception:
                    if not lenient:
                        raise
                    _log.exception("resource %s of %s cannot be loaded", name, project)
                    version = NotReady(internal_error(f"resource {name} cannot be loaded"))
            versions[name] = version
            if name in publication.outdated and not isinstance(version, OnDemand):
                before = self._version(project, name)
                build = before.build if isinstance(before, Outdated) else PendingBuild()
                versions[name] = Outdated(version, build)
        routes = RouteTable.build(
            publication.project, versions, domain=self._domain, front=self._front, domains=publication.domains
        )
        if not lenient and not self._front:
            for host in routes.hosts:
                owner = self.routes.match_host(host)
                if owner is not None and owner.project != project:
                    message = f"the address {host} belongs to the project {owner.project}"
                    hint = "Rename the project or the resource in svc.toml."
                    raise SvcError(message, hint, code="conflict")
        return PreparedProject(publication, routes, versions, served)

    def _version(self, project: str, name: str) -> Version | None:
        live = self._live.get(project)
        return live.versions.get(name) if live is not None else None

    async def _serve(
        self,
        publication: Publication,
        resource: Resource,
        artifact: Artifact | StoredArtifact,
        *,
        lenient: bool,
    ) -> _ServedResource:
        live = self._live.get(publication.project.name)
        secrets = tuple(publication.secrets.get(name) for name in resource.secrets)
        served = live.served.get(resource.name) if live is not None else None
        inputs = (resource, artifact, publication.deployment, secrets)
        if served is not None and inputs == served.inputs:
            return served
        version: BuiltVersion | OnDemand
        if isinstance(artifact, StoredArtifact):
            version, before = self.versions.create_on_demand(publication, resource, artifact), served
            if not lenient or (before and isinstance(before.version, OnDemand) and before.version.loaded):
                await version.load()
        else:
            version = await self.versions.create(publication, resource, artifact)
        return _ServedResource(inputs, version)

    def public_hosts(self) -> dict[str, list[str]]:
        """Return the host names of each project, its own before those of its resources."""
        return {
            name: sorted(live.routes.hosts, key=lambda host: ("--" in host, host))
            for name, live in self._live.items()
        }

    def activate(self, prepared: PreparedProject, *, replace_all: bool = False) -> None:
        """Serve a prepared project from the next request on, or remove it.

        `replace_all` removes every other project.
        """
        name = prepared.publication.project.name
        self.versions.enforce(name, prepared.publication.quota)
        before = self._live.get(name)
        self._live = ({} if replace_all else self._live) | {name: prepared}
        if prepared.publication.removed:
            del self._live[name]
        self._routes = None
        for resource, version in before.versions.items() if before is not None else ():
            replacement = prepared.versions.get(resource)
            build = _pending_build(version)
            if build is None or build is _pending_build(replacement) or isinstance(replacement, OnDemand):
                continue  # No build ends with a version on demand.
            build.finish(replacement)
        for resource, served in before.served.items() if before is not None else ():
            after = prepared.served.get(resource)
            if isinstance(served.version, OnDemand) and after is not served:
                served.version.unload()
        if self.on_activate is not None and name in self._live:
            self.on_activate(name)

    async def load(self, name: str) -> None:
        """Load the resources of a project that is served. Raises the first `SvcError`."""
        for version in self._live[name].versions.values():
            if isinstance(version, OnDemand):
                await version.load()

    def project(self, name: str) -> Project | None:
        """Return a project as it is served."""
        live = self._live.get(name)
        return live.publication.project if live is not None else None

    def projects(self) -> dict[str, Project]:
        return {name: live.publication.project for name, live in self._live.items()}

    def collector(self, name: str) -> ProjectCollector | None:
        """Return the OpenTelemetry collector that a served project names, or None."""
        live = self._live.get(name)
        if live is None or not live.publication.project.otlp:
            return None
        project, secrets = live.publication.project, live.publication.secrets
        headers = tuple((header, secrets.get(secret, "")) for header, secret in project.otlp_headers.items())
        return ProjectCollector(project.otlp, headers)

    def quota(self, name: str) -> Quota | None:
        """Return the quota of a served project."""
        live = self._live.get(name)
        return live.publication.quota if live is not None else None

    def status(self, project: str, name: str, builds: BuildStatus = _NO_BUILDS) -> ResourceStatus:
        """Return the status of a resource; `builds` are its builds in development."""
        version = self._version(project, name)
        if isinstance(version, Outdated):
            version = version.version
        error = builds.error or (version.error if isinstance(version, NotReady | OnDemand) else None)
        broken = isinstance(version, NotReady) or (isinstance(version, OnDemand) and error is not None)
        serves = version is not None and not broken
        state: State
        if builds.running:
            state = "building"
        elif builds.queued or (error is None and not serves):
            state = "waiting"
        else:
            state = "ready" if error is None else "failed"
        return ResourceStatus(state, error, serves, builds.seconds)
