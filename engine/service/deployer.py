"""Deploys, rollbacks, secrets and removals of all projects in a bucket.

A change first does everything that can fail beside the live version. One compare-and-set in the bucket then
activates it, and the routes are replaced. If the process is killed at any point, either the old or the new
version is live.
"""

import asyncio
import logging
import math
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from engine.artifact import StoredArtifact
from engine.bucket.protocols import Bucket, BucketError, Digest, StaleRevision, VersionedValue
from engine.cancellation import cancel, spawn
from engine.deploy import package_store
from engine.deploy.deployment import (
    LIVE,
    PROJECT_SETTINGS,
    DeployedResource,
    Deployment,
    DeploymentError,
    DeploymentHistory,
    Live,
    RecordError,
    RevisionConflict,
    drift,
    new_deployment_id,
    revision_conflict,
)
from engine.deploy.gc import GcReport, collect_garbage
from engine.deploy.serving import PreparedProject, Publication, ServingTable, Tenants
from engine.errors import SvcError, internal_error
from engine.gateway.app import Gateway, GatewaySettings
from engine.http.exchange import MemoryExchange, Request
from engine.manifest.load import parse
from engine.manifest.model import Project, host_label, kind_of
from engine.service import domains, quotas, removals, secrets
from engine.service.policy import (
    Change,
    changes,
    component_imports,
    enforce_mounts,
    enforce_policy,
    require_owner,
    require_secrets,
)
from engine.wasm.compile.code_cache import is_compiled

TIMEOUT_SECONDS = 30.0
START_SECONDS = 30.0
"""How long the start waits for deployments. Those that compile for longer are loaded while others serve."""
RETRY_SECONDS = 2.0
REPORT_SECONDS = 600.0
"""Minimum time between two reports that changes cannot be followed."""
_log = logging.getLogger("svc.server")
_FOLLOWED = (LIVE, secrets.KEY_PREFIX, quotas.KEY_PREFIX, domains.KEY_PREFIX, removals.KEY_PREFIX)
"""Prefixes of the keys that decide what is served. The name of a project follows."""


NO_PROJECT_DIR = Path("/dev/null/project")
"""Folder of a project whose files are on the deployer's machine; it never exists."""


class InvalidDeploySpec(SvcError):
    """The manifest and packages of a deploy are inconsistent."""

    code = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySpec:
    """One deploy. `revision` is the live revision that the client read (`None`: nothing was live).

    `tables` are migrations by file name. `allow_new_capability` permits components to import what the live
    ones do not, and new domains. `discard_mounts` permits to undo mounts that were drawn in the Console.
    `may` returns whether the deployer has at least a role in a project: new domains need an owner, and other
    projects are named to their viewers only.
    """

    project: Project
    packages: Mapping[str, Digest]
    by: str
    revision: int | None
    commit: str = ""
    message: str = ""
    allow_new_capability: bool = False
    discard_mounts: bool = False
    tables: Mapping[str, str] = field(default_factory=dict)
    may: Callable[[str, Literal["viewer", "owner"]], bool] = lambda project, role: False


def read_project(manifest: str, name: str) -> Project:
    """Return the project of a manifest's text.

    Raises `ManifestError` with every mistake, and `InvalidDeploySpec` for another project's manifest.
    """
    project = parse(NO_PROJECT_DIR, manifest.encode())
    if project.name != name:
        raise InvalidDeploySpec(f"the manifest is for the project {project.name}, not {name}")
    return project


def read_packages(project: Project, packages: Mapping[str, Digest]) -> dict[str, Digest]:
    """Return the package of each resource.

    Raises `InvalidDeploySpec` for missing and unknown ones.
    """
    lacking = sorted(project.resources.keys() - packages.keys())
    unknown = sorted(packages.keys() - project.resources.keys())
    if lacking or unknown:
        reason = (
            f"no package for {', '.join(lacking)}" if lacking else f"no resource named {', '.join(unknown)}"
        )
        raise InvalidDeploySpec(f"the deploy of {project.name} has {reason}")
    return {name: packages[name] for name in project.resources}


class HealthCheckFailed(SvcError):
    """A resource failed its health check, so the deployment was not activated."""

    code = "check-failed"


async def check_health(ready: PreparedProject, path: str, domain: str, tenants: Tenants) -> None:
    """Request a path from every public resource. Raises `HealthCheckFailed` for the first failure."""
    project, (target, _, query) = ready.publication.project, path.partition("?")
    gateway = Gateway(lambda: ready.routes, tenants.timeline, GatewaySettings(), doors_of=tenants.open_doors)
    for name, resource in project.resources.items():
        if not resource.public:
            continue
        host = f"{host_label(project.name, name)}.{domain}".encode()
        headers = [(b"host", host), (b"user-agent", b"svc-check"), (b"accept", b"*/*")]
        response = MemoryExchange(
            Request(method="GET", scheme="http", path=target, query=query.encode(), headers=headers)
        )
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await gateway(response)
        except TimeoutError:
            outcome = f"did not respond to {path} within {TIMEOUT_SECONDS:.0f} s"
        else:
            status = response.status or 500
            if not response.aborted and status < 400:
                continue
            outcome = f"responded to {path} with {status}"
            if response.aborted:
                outcome = f"aborted its response to {path}"
        raise HealthCheckFailed(
            f"health check failed: resource {name} {outcome}; the live version is unchanged",
            "Run `svc logs` for its output; project.check in svc.toml sets the path.",
        )


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A progress step of a deploy."""

    step: str
    text: str


class Deployer:
    """All projects of a bucket. Use on one event loop."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        unpacked: Path,
        cache: Path | None = None,
        site: ServingTable,
        tenants: Tenants,
        domain: str,
        key: secrets.SecretsKey,
        publish: Callable[[Publication], Awaitable[None]] | None = None,
        migrate: Callable[[Deployment, Mapping[str, str]], Awaitable[None]] | None = None,
        referenced: Callable[[], Awaitable[set[Digest]]] | None = None,
        applied_removals: Path | None = None,
    ) -> None:
        """`unpacked` caches artifacts as files, `cache` their compiled code; both can be recreated.

        `publish` updates worker processes and returns when they serve the publication. `migrate` applies the
        new migrations of a deployment by file name, each atomically. `referenced` is that of
        `collect_garbage`, `applied_removals` that of `Removals`.
        """
        self.bucket = bucket
        self.history = DeploymentHistory(bucket)
        self.secrets = secrets.SecretStore(bucket.kv, key)
        self.quotas = quotas.QuotaStore(bucket.kv)
        self.domains = domains.DomainStore(bucket.kv, domain)
        self.removals = removals.Removals(bucket.kv, applied_removals)
        self.domains_declared = asyncio.Event()
        """Set when a deployment that went live may have declared domains."""
        self._unpacked = unpacked
        self._cache = cache
        self._site = site
        self._tenants = tenants
        self._domain = domain
        self._publish_to_workers = publish
        self._migrate = migrate
        self._referenced = referenced
        self._committing: set[asyncio.Task[Any]] = set()
        self._loading: set[asyncio.Task[None]] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._collecting = asyncio.Lock()
        self._served: dict[str, tuple[Publication, int]] = {}
        """By project, what was activated last, and the revision of `live/`."""
        self._prepared: dict[str, PreparedProject] = {}
        """By project, what another node is about to activate."""
        self.ready_elsewhere: Callable[[str, str], Awaitable[None]] | None = None
        self.on_deploy: Callable[[str, str], None] = lambda project, failure: None
        """Called with a project that was deployed, or with the reason of a failure other than a conflict."""
        self.on_removed: Callable[[str, str], None] = lambda project, by: None
        """Called with a project that was removed, and the user."""
        self.delete_data: Callable[[str], Awaitable[None]] = tenants.remove
        """Closes what a project that is not served has open, and deletes its data of this machine."""
        self.delete_elsewhere: Callable[[str], Awaitable[None]] | None = None
        """Has the other nodes of a fleet call `apply_removal`, and deletes the data that they share."""

    async def start(self, warn: Callable[[SvcError], None]) -> None:
        """Serve all live deployments at the same time. Return when all are served, or after `START_SECONDS`.

        `warn` is called with each error.
        """
        try:
            await self.secrets.seal_all()
        except SvcError as error:  # As on a full disk, where reading works.
            warn(error)
        for project, removal in (await self.removals.all()).items():
            if not removal.complete:
                try:
                    await self._complete_removal(project)
                except SvcError as error:
                    warn(error)
        loads = [spawn(self._loading, self._load(live, warn)) for live in await self.history.all_live(warn)]
        if loads:
            await asyncio.wait(loads, timeout=START_SECONDS)
        for name, (publication, _) in self._served.items():  # A process killed after an activation did not.
            if publication.project.domains.keys() != self.domains.known(name).keys():
                await self.domains.declare(name, publication.project.domains)

    async def changes(
        self,
        project: str,
        settings: Project | Deployment,
        planned: Mapping[str, DeployedResource],
        sizes: Mapping[Digest, int],
    ) -> list[Change]:
        """Return the changes that deploying these resources would make; `sizes` are those of packages."""
        live = await self._live_deployment(project)
        live = await self._with_imports(live) if live is not None else None
        parts = live.resources if live is not None else {}
        before = await package_store.sizes(self.bucket.blobs, (part.package for part in parts.values()))
        return changes(live, settings, planned, {**before, **sizes})

    async def deploy(self, spec: DeploySpec) -> AsyncIterator[Step | Deployment]:
        """Deploy; yields steps, then the deployment.

        Raises `RevisionConflict` if another change went live meanwhile, and `SvcError` for failures of the
        policy, a component, a migration or the health check. The live version then stays.
        """
        steps: asyncio.Queue[Step | None] = asyncio.Queue()
        job = asyncio.create_task(self._deploy(spec, steps), name=f"deploy {spec.project.name}")
        job.add_done_callback(lambda _: steps.put_nowait(None))
        job.add_done_callback(partial(self._report_failure, spec.project.name))
        try:
            while (step := await steps.get()) is not None:
                yield step
            yield job.result()
        finally:
            self._cancel_unless_committing(job)

    async def _deploy(self, spec: DeploySpec, steps: asyncio.Queue[Step | None]) -> Deployment:
        name = spec.project.name
        async with self._locks[name]:
            if await self.removals.is_pending(name):
                await self._complete_removal(name)
            self._tenants.reopen(name)
            await self._check_revision(name, spec.revision)
            steps.put_nowait(Step("policy", "checking what the deploy changes"))
            live = await self._live_deployment(name)
            enforce_mounts(drift(live.drawn, spec.project) if live else (), discard=spec.discard_mounts)
            deployment = await self._recorded(spec)
            await self.domains.check_free(name, spec.project.domains, lambda each: spec.may(each, "viewer"))
            if not spec.may(name, "owner"):
                await self._require_owner(spec.project)
            differences = await self.changes(name, deployment, deployment.resources, {})
            enforce_policy(
                differences, allow=spec.allow_new_capability, timeline=self._tenants.timeline(name)
            )
            steps.put_nowait(Step("policy", "compiling and linking components"))
            ready = await self._ready(deployment)
            if spec.tables and self._migrate is not None:
                steps.put_nowait(Step("policy", "applying migrations that are new"))
                await self._migrate(deployment, spec.tables)
            await self._commit(deployment, ready, spec.revision, steps)
        await self.history.forget_old(name)
        return deployment

    async def _commit(
        self,
        deployment: Deployment,
        ready: PreparedProject,
        revision: int | None,
        steps: asyncio.Queue[Step | None],
    ) -> Live:
        project = ready.publication.project
        if project.check is not None:
            steps.put_nowait(Step("policy", f"checking {project.check}"))
            await check_health(ready, project.check, self._domain, self._tenants)
        await self.history.add(deployment)
        if self.ready_elsewhere is not None:
            steps.put_nowait(Step("policy", "preparing the other nodes"))
            await self.ready_elsewhere(project.name, deployment.id)
        steps.put_nowait(Step("activate", "activating routes"))
        return await self._go_live(ready, revision=revision, by=deployment.by, message=deployment.message)

    def _report_failure(self, project: str, job: "asyncio.Task[Any]") -> None:
        error = None if job.cancelled() else job.exception()
        if error is not None and not isinstance(error, RevisionConflict):
            reason = (
                error.public_message if isinstance(error, SvcError) else "the service failed; see its log"
            )
            self.on_deploy(project, reason)

    def _cancel_unless_committing(self, job: "asyncio.Task[Any]") -> None:
        """Cancel a job without a waiting caller, unless it is being activated."""
        if job not in self._committing:
            job.cancel()

    async def _go_live(self, ready: PreparedProject, *, revision: int | None, by: str, message: str) -> Live:
        """Activate a deployment by compare-and-set, and serve it. Not canceled once it has begun."""
        job = asyncio.current_task()
        assert job is not None
        self._committing.add(job)
        project, id_ = ready.publication.project.name, ready.publication.deployment
        try:
            activated = await self.history.activate(
                project, id_, at_ns=time.time_ns(), by=by, message=message, revision=revision
            )
            if isinstance(activated, StaleRevision):
                raise revision_conflict(project, await self.history.live(project))
            await self._activate(ready, activated.revision)
            self.on_deploy(project, "")
            await self.domains.declare(project, ready.publication.project.domains)
            self.domains_declared.set()
            return activated
        finally:
            self._committing.discard(job)

    async def _require_owner(self, project: Project) -> None:
        """Raise `SvcError` for domains that a project does not have now."""
        declared = await self.domains.get(project.name)
        require_owner(project.name, sorted(project.domains.keys() - declared.keys()))

    async def rollback(
        self, project: str, id_: str, *, by: str, owner: bool, message: str, revision: int | None
    ) -> Deployment:
        """Activate an earlier deployment, without a build. Raises as `deploy` does.

        A domain that another project has by now is a state of the domain. Only an `owner` can add domains.
        """

        async def steps() -> Deployment:
            async with self._locks[project]:
                await self._check_revision(project, revision)
                deployment = await self.history.get(project, id_)
                if not owner:
                    await self._require_owner(deployment.served(NO_PROJECT_DIR))
                ready = await self._ready(deployment)
                if self.ready_elsewhere is not None:
                    await self.ready_elsewhere(project, id_)
                await self._go_live(ready, revision=revision, by=by, message=message)
            return deployment

        return await self._unless_left(steps(), f"rollback {project}")

    async def redeploy(self, deployment: Deployment, revision: int) -> Live:
        """Activate a new deployment of packages that are live already. Raises as `deploy` does."""

        async def steps() -> Live:
            async with self._locks[deployment.project]:
                await self._check_revision(deployment.project, revision)
                ready = await self._ready(deployment)
                activated = await self._commit(deployment, ready, revision, asyncio.Queue())
            await self.history.forget_old(deployment.project)
            return activated

        return await self._unless_left(steps(), f"deploy {deployment.project}")

    async def _unless_left(self, steps: Coroutine[Any, Any, T], name: str) -> T:
        """Run a change. If the caller is canceled, it is too, unless it is being activated."""
        job = asyncio.create_task(steps, name=name)
        try:
            return await asyncio.shield(job)
        finally:
            self._cancel_unless_committing(job)

    async def rollback_changes(self, project: str, id_: str) -> list[Change]:
        """Return the changes that `rollback` would make."""
        deployment = await self._with_imports(await self.history.get(project, id_))
        parts = deployment.resources
        sizes = await package_store.sizes(self.bucket.blobs, (part.package for part in parts.values()))
        return await self.changes(project, deployment, parts, sizes)

    async def remove(self, project: str, by: str) -> None:
        """Remove a project with all that it stores. Once it has begun, it is completed even after a kill.

        Raises `SvcError` while the project is being changed, and if there is nothing to remove.
        """
        if self._locks[project].locked():
            message = f"a deploy or another change of {project} is in progress; nothing was removed"
            raise SvcError(message, "Try again when it has ended.", code="conflict")

        async def steps() -> None:
            async with self._locks[project]:
                if not await self.removals.is_stored(project) and not await self.removals.is_pending(project):
                    hint = "Run `svc projects list` to list the projects."
                    raise SvcError(f"the service has no project {project}", hint, code="not-found")
                await self.removals.begin(project, by)
                await self._complete_removal(project)
                self.on_removed(project, by)

        await asyncio.shield(spawn(self._committing, steps()))

    async def _complete_removal(self, project: str) -> None:
        await self.removals.stop_serving(project)
        await self._delete_own(project)
        if self.delete_elsewhere is not None:
            await self.delete_elsewhere(project)
        await self.removals.complete(project)
        if self.delete_elsewhere is not None:
            # A node may have asked another one meanwhile, which then opened its copy of the tables again.
            await self._delete_own(project)
            await self.delete_elsewhere(project)

    async def _delete_own(self, project: str) -> None:
        """Stop serving a project, and delete its data of this machine."""
        self._prepared.pop(project, None)
        nothing = Publication(Project(project, NO_PROJECT_DIR, {}), {}, removed=True)
        await self._activate(await self._site.prepare(nothing), sys.maxsize)
        del self._served[project]
        await self.delete_data(project)
        await self.domains.get(project)
        await self.removals.applied(project)

    async def apply_removal(self, project: str) -> None:
        """Delete the data of this node of a fleet that is older than a removal of the project."""
        if await self.removals.is_unapplied(project):
            async with self._locks[project]:
                if await self.removals.is_unapplied(project):
                    await self._delete_own(project)

    async def change(self, project: str, change: Coroutine[Any, Any, T]) -> T:
        """Run a change of secrets or the quota and reload the live version, even if the caller is canceled.

        It applies from the next request. Raises as `change` does.
        """

        async def steps() -> T:
            result = await change
            await self.reload(project)
            return result

        return await asyncio.shield(spawn(self._committing, steps()))

    async def collect_garbage(self, *, count_only: bool = False, files_only: bool = False) -> GcReport:
        """Remove data that no recorded deployment needs, or only count it. Raises `GarbageError`.

        With `files_only`, removes only files of this machine.
        """
        async with self._collecting:
            return await collect_garbage(
                self.bucket,
                time.time_ns(),
                unpacked=self._unpacked,
                cache=self._cache,
                count_only=count_only,
                files_only=files_only,
                referenced=self._referenced,
            )

    async def reload(self, project: str) -> None:
        """Reload the live version after its secrets, its quota or its proven domains have changed."""
        async with self._locks[project]:
            live = await self.history.live(project)
            if live is not None:
                await self._serve(live)

    async def prepare(self, project: str, id_: str) -> None:
        """Unpack and compile a deployment that another node will activate. Raises `SvcError`."""
        publication = await self._publication(await self.history.get(project, id_))
        self._prepared[project] = await self._site.prepare(publication)

    async def refresh(self, project: str) -> None:
        """Serve the live version if it, its secrets, its quota or its domains differ from what is served."""
        await self.apply_removal(project)
        live, ready = await self.history.live(project), self._prepared.get(project)
        if live is not None and ready is not None and ready.publication.deployment == live.deployment:
            del self._prepared[project]
            served = self._served.get(project)
            if served is None or served[1] < live.revision:
                # Without the lock, which a deploy of this node may hold for long.
                await self._activate(ready, live.revision)
        async with self._locks[project]:
            live, served = await self.history.live(project), self._served.get(project)
            if live is not None and (
                served is None
                or served[1] != live.revision
                or served[0].secrets != await self.secrets.values(project, served[0].project.secrets)
                or served[0].quota != await self.quotas.get(project)
                or served[0].domains != await self.domains.proven(project)
            ):
                await self._serve(live)

    async def aclose(self) -> None:
        """Stop loading, and wait for activations in progress."""
        await cancel(self._loading)
        if self._committing:
            await asyncio.wait(self._committing)

    async def _recorded(self, spec: DeploySpec) -> Deployment:
        """Return the record of a new deployment, whose packages it unpacks."""
        parts = {}
        for name, resource in spec.project.resources.items():
            package = await package_store.touch(self.bucket.blobs, spec.packages[name])
            if package.kind != kind_of(resource.lane):
                raise InvalidDeploySpec(
                    f"the package of the {resource.lane} resource {name} is of kind {package.kind}"
                )
            artifact = await package_store.unpack(self.bucket.blobs, spec.packages[name], self._unpacked)
            imported = await asyncio.to_thread(component_imports, artifact)
            parts[name] = DeployedResource.of(resource, spec.packages[name], package.artifact, imported)
        now = time.time_ns()
        return Deployment(
            new_deployment_id(now),
            spec.project.name,
            created_ns=now,
            by=spec.by,
            commit=spec.commit,
            message=spec.message,
            resources=parts,
            **{name: getattr(spec.project, name) for name in PROJECT_SETTINGS},
        )

    async def _live_deployment(self, project: str) -> Deployment | None:
        """Return the live deployment, unless its record is corrupt or lost."""
        live = await self.history.live(project)
        with suppress(DeploymentError, RecordError):
            return await self.history.get(project, live.deployment) if live is not None else None
        return None

    async def _with_imports(self, deployment: Deployment) -> Deployment:
        """Return a deployment, adding imports that an older svc did not record.

        Corrupt packages have none, and are compared without them.
        """
        resources = dict(deployment.resources)
        for name, part in resources.items():
            if part.imports is None and kind_of(part.lane) == "component":
                with suppress(SvcError):
                    artifact = await package_store.unpack(self.bucket.blobs, part.package, self._unpacked)
                    imported = await asyncio.to_thread(component_imports, artifact)
                    resources[name] = replace(part, imports=tuple(sorted(imported or ())))
        return replace(deployment, resources=resources)

    async def _ready(self, deployment: Deployment) -> PreparedProject:
        """Compile and link a deployment that has its secrets. Raises `SvcError`."""
        publication = await self._publication(deployment)
        timeline = self._tenants.timeline(deployment.project)
        require_secrets(publication.project, publication.secrets, timeline)
        return await self._site.prepare(publication)

    async def _publication(self, deployment: Deployment) -> Publication:
        name, project = deployment.project, deployment.served(self._unpacked)
        last = await self.removals.get(name)
        removal = last.id if last is not None else ""
        self._tenants.reopen(name, removal)
        return Publication(
            project,
            {key: StoredArtifact(part.package, part.artifact) for key, part in deployment.resources.items()},
            deployment.id,
            await self.secrets.values(name, project.secrets),
            await self.quotas.get(name),
            domains=await self.domains.proven(name),
            removal=removal,
        )

    async def _serve(self, live: Live) -> None:
        """Serve a live deployment; resources that cannot run answer "not ready"."""
        publication = await self._publication(await self.history.get(live.project, live.deployment))
        await self._activate(await self._site.prepare(publication, lenient=True), live.revision)

    async def _load(self, live: Live, warn: Callable[[SvcError], None]) -> None:
        """Serve a live deployment, and load it unless its files are there: a first request loads those."""
        try:
            await self._serve(live)
            publication, _ = self._served[live.project]
            if not await asyncio.to_thread(self._is_at_hand, publication):
                await self._site.load(live.project)
        except Exception as failure:
            error = failure if isinstance(failure, SvcError) else None
            if error is None:
                _log.exception("%s cannot be loaded", live.project)
                error = internal_error("its deployment cannot be loaded")
            warn(SvcError(f"{live.project} is not served: {error.message}", error.hint, code=error.code))

    def _is_at_hand(self, publication: Publication) -> bool:
        return all(
            isinstance(part, StoredArtifact)
            and (self._unpacked / part.package).is_dir()
            and (
                kind_of(publication.project.resources[name].lane) != "component"
                or (self._cache is not None and is_compiled(self._cache, part.digest, verify=False))
            )
            for name, part in publication.parts.items()
        )

    async def _activate(self, ready: PreparedProject, revision: int) -> None:
        """Serve what a revision of `live/` names, unless a later one is served already."""
        publication = ready.publication
        served = self._served.get(publication.project.name)
        if served is not None and served[1] > revision:
            return
        self._site.activate(ready)
        self._served[publication.project.name] = publication, revision
        if self._publish_to_workers is not None:
            await self._publish_to_workers(publication)

    async def _check_revision(self, project: str, revision: int | None) -> None:
        live = await self.history.live(project)
        if (live.revision if live is not None else None) != revision:
            raise revision_conflict(project, live)


Watch = Callable[[str, int], AsyncGenerator[tuple[str, VersionedValue | None], None]]
"""Yields the keys with a prefix that change after a revision, and their values, until the bucket closes."""


def follow(tasks: set[asyncio.Task[None]], watch: Watch, refresh: Callable[[str], Awaitable[None]]) -> None:
    """Refresh projects whose keys change, until `tasks` are canceled. All with a key are refreshed at first.

    `tasks` gets the tasks that do it.
    """
    waiting: set[str] = set()
    reported = -math.inf

    async def follow_prefix(prefix: str) -> None:
        nonlocal reported
        after = 0
        while True:
            try:
                async for key, value in watch(prefix, after):
                    after = value.revision if value is not None else after
                    project = key.removeprefix(prefix)
                    if project not in waiting:
                        waiting.add(project)
                        spawn(tasks, refresh_project(project))
                return
            except BucketError as error:
                if time.monotonic() - reported > REPORT_SECONDS:
                    reported = time.monotonic()
                    _log.warning("changes of other nodes cannot be followed: %s; svc retries", error.message)
                await asyncio.sleep(RETRY_SECONDS)

    async def refresh_project(project: str) -> None:
        while True:
            waiting.discard(project)  # A change from now on needs another refresh.
            try:
                await refresh(project)
                return
            except BucketError:
                await asyncio.sleep(RETRY_SECONDS)
            except SvcError as error:
                _log.warning("%s, deployed on another node, is not served: %s", project, error.message)
                return
            except Exception:
                _log.exception("%s, deployed on another node, cannot be loaded", project)
                return

    for prefix in _FOLLOWED:
        spawn(tasks, follow_prefix(prefix))
