"""Routes for deploys: plan, upload, deploy, history, rollback and secrets.

`engine/service` implements deploys and their rules. Times are ISO 8601 in UTC; digests are sha256 in
hexadecimal.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from quart import Response, request

from engine.bucket.protocols import Digest, StaleRevision, as_digest
from engine.control import ndjson
from engine.control.access import ALL_PROJECTS
from engine.control.app import Routes, internal_error, principal, require
from engine.control.errors import NotFound, problem_members
from engine.control.project_threads import ProjectThreads
from engine.control.projects import RemovedOut
from engine.control.schemas import AddressOut, QueryModel, StrictModel
from engine.deploy.deployment import DeployedResource, Deployment, Live
from engine.errors import SvcError
from engine.quota import NO_QUOTA
from engine.service.deployer import NO_PROJECT_DIR, Deployer, DeploySpec, read_packages, read_project

Sha256 = Annotated[Digest, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=4096)]
MAX_FILE_NAME_BYTES = 255
MAX_MANIFEST_LENGTH = 256 << 10
MAX_BLOBS = 100_000
MAX_UPLOAD_BYTES = 1 << 53


def _short(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > MAX_FILE_NAME_BYTES:
        raise ValueError(f"a file's name has at most {MAX_FILE_NAME_BYTES} bytes")
    return name


FileName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*\.sql$"), AfterValidator(_short)
]


class BuiltResource(StrictModel):
    """A built resource: its package, artifact, size in bytes and component imports.

    Without a component, `imports` is `null`.
    """

    package: Sha256
    artifact: Sha256
    size: Annotated[int, Field(ge=0)] = 0
    imports: (
        Annotated[list[Annotated[str, StringConstraints(max_length=200)]], Field(max_length=200)] | None
    ) = None


class PlanRequest(StrictModel):
    """A manifest, its built resources, and the digests of all their blobs."""

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    resources: dict[str, BuiltResource]
    blobs: list[Sha256] = Field([], max_length=MAX_BLOBS)


class ChangeOut(StrictModel):
    """One difference, of `[project]` without `resource`. `new_capability` needs `allow_new_capability`."""

    resource: str
    field: str
    before: str
    after: str
    new_capability: bool


class PlanOut(StrictModel):
    """The changes of a deploy relative to `revision`, and the blobs to upload."""

    revision: int | None
    live: str | None
    changes: list[ChangeOut]
    missing: list[Sha256]


class DeployRequest(StrictModel):
    """A deploy; it fails if the live revision is not `revision`. `tables` maps file names to migrations.

    Without `discard_mounts`, it fails if mounts drawn in the Console are not in the manifest.
    """

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    packages: dict[str, Sha256]
    revision: int | None
    commit: Text = ""
    message: Text = ""
    allow_new_capability: bool = False
    discard_mounts: bool = False
    tables: dict[FileName, str] = Field({})


class RollbackRequest(StrictModel):
    """The deployment to roll back to, and a message."""

    deployment: Annotated[str, StringConstraints(max_length=100)]
    revision: int
    message: Text = ""


class DeploymentOut(StrictModel):
    """One deployment."""

    id: str
    project: str
    created: str
    by: str
    commit: str
    message: str
    live: bool
    resources: dict[str, Sha256]


class ActivationOut(StrictModel):
    """When a deployment was made live."""

    deployment: str
    at: str
    by: str
    message: str


class DeploymentList(StrictModel):
    """The live revision and front (or `null`), the retained deployments and the activations, newest first."""

    revision: int | None
    address: str | None
    deployments: list[DeploymentOut]
    activations: list[ActivationOut]


class LiveOut(StrictModel):
    """The live deployment and its addresses; `address` is that of the front, `null` if there is none."""

    deployment: DeploymentOut
    address: str | None
    addresses: list[AddressOut]


class RollbackPlanOut(StrictModel):
    """The changes of a rollback relative to `revision`."""

    revision: int
    live: str
    changes: list[ChangeOut]


class UploadQuery(QueryModel):
    """The total size of the upload in bytes, and the offset of this part."""

    size: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)]
    offset: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)] = 0


class UploadOut(StrictModel):
    """How many bytes of an upload were received."""

    received: int


class SecretList(StrictModel):
    """The names of a project's secrets."""

    secrets: list[str]


class SecretRequest(StrictModel):
    """The value of a secret."""

    value: Annotated[str, StringConstraints(max_length=65_536)]


MAX_BLOB_BYTES = 1 << 30
"""Maximum size of one file of an artifact."""


def blueprint(service: Deployer, url_of: Callable[[str, str], str]) -> Routes:
    """Return the routes, which raise `SvcError` and `NotFound`. `url_of` is that of `ServiceSettings`."""
    routes = Routes("deployments", __name__)
    history, blobs = service.history, service.bucket.blobs
    threads = ProjectThreads("manifests")

    @routes.post("/v1/projects/<project>/plan", "deployer")
    async def plan(project: str, data: PlanRequest) -> PlanOut:
        """Return what a deploy would change, and which blobs must be uploaded."""
        caller = principal()
        manifest_project = await threads.run(project, partial(read_project, data.manifest, project))
        may_view = partial(caller.has, role="viewer")
        await service.domains.check_free(project, manifest_project.domains, may_view)
        read_packages(manifest_project, {name: built.package for name, built in data.resources.items()})
        resources = {}
        for key, resource in manifest_project.resources.items():
            built = data.resources[key]
            resources[key] = DeployedResource.of(resource, built.package, built.artifact, built.imports)
        sizes = {built.package: built.size for built in data.resources.values()}
        live = await history.live(project)
        changes = await service.changes(project, manifest_project, resources, sizes)
        missing = [digest for digest in data.blobs if not await blobs.touch(digest)]
        revision, name = (live.revision, live.deployment) if live is not None else (None, None)
        changed = list(map(ChangeOut.from_value, changes))
        return PlanOut(revision=revision, live=name, changes=changed, missing=missing)

    @routes.get("/v1/projects/<project>/blobs/<digest>", "deployer")
    async def received(project: str, digest: str) -> UploadOut:
        """Return how many bytes of an upload were received, as the offset to resume at."""
        return UploadOut(received=await blobs.received(as_digest(digest), project))

    @routes.put("/v1/projects/<project>/blobs/<digest>", "deployer", takes="application/octet-stream")
    async def upload(project: str, digest: str, query_args: UploadQuery) -> UploadOut:
        """Receive a blob, or the rest of one."""
        size, offset = query_args.size, query_args.offset
        if size > MAX_BLOB_BYTES:
            raise SvcError(f"the file has {size} bytes; the limit is {MAX_BLOB_BYTES}", code="body-too-large")
        stored = await blobs.upload(as_digest(digest), size, offset, request.body, project)
        if isinstance(stored, StaleRevision):
            hint = "Resume at that offset."
            raise SvcError(f"the upload has {stored.current} bytes, not {offset}", hint, code="conflict")
        return UploadOut(received=stored)

    @routes.post("/v1/projects/<project>/deployments", "deployer", sends=[ndjson.MEDIA_TYPE])
    async def deploy(project: str, data: DeployRequest) -> Response:
        """Deploy a manifest. Responds with NDJSON: steps, then the live deployment (`done`) or an `error`."""
        caller = principal()
        manifest_project = await threads.run(project, partial(read_project, data.manifest, project))
        packages = read_packages(manifest_project, data.packages)
        settings = data.model_dump(exclude={"manifest", "packages"})
        spec = DeploySpec(
            project=manifest_project, packages=packages, by=caller.name, may=caller.has, **settings
        )
        return ndjson.ndjson_response(_progress(spec))

    async def _progress(spec: DeploySpec) -> AsyncIterator[bytes]:
        try:
            async for step in service.deploy(spec):
                if isinstance(step, Deployment):
                    yield ndjson.line({"done": _went_live(step).model_dump(mode="json")})
                else:
                    yield ndjson.line({"step": step.step, "text": step.text})
        except SvcError as error:
            yield ndjson.line({"error": problem_members(error)})
        except Exception as error:
            yield ndjson.line({"error": problem_members(internal_error(error))})

    @routes.get("/v1/projects/<project>/deployments", "viewer")
    async def deployments(project: str) -> DeploymentList:
        """List the retained deployments and the activations."""
        live, listed = await history.live(project), await history.deployments(project)
        serving = [each for each in listed if live is not None and each.id == live.deployment]
        return DeploymentList(
            revision=live.revision if live is not None else None,
            address=address(serving[0]) if serving else None,
            deployments=[_deployment(each, each in serving) for each in listed],
            activations=list(map(ActivationOut.from_value, reversed(live.activations if live else ()))),
        )

    @routes.get("/v1/projects/<project>/deployments/<deployment>/rollback", "deployer")
    async def rollback_plan(project: str, deployment: str) -> RollbackPlanOut:
        """Return what a rollback to this deployment would change."""
        live = await _live(project)
        changes = map(ChangeOut.from_value, await service.rollback_changes(project, deployment))
        return RollbackPlanOut(revision=live.revision, live=live.deployment, changes=list(changes))

    @routes.post("/v1/projects/<project>/rollback", "deployer")
    async def rollback(project: str, data: RollbackRequest) -> LiveOut:
        """Roll back to an earlier deployment."""
        caller = principal()
        await _live(project)
        deployment = await service.rollback(
            project,
            data.deployment,
            by=caller.name,
            owner=caller.has(project, "owner"),
            message=data.message,
            revision=data.revision,
        )
        return _went_live(deployment)

    @routes.get("/v1/projects/<project>", "viewer")
    async def live(project: str) -> LiveOut:
        """Return the live deployment and its addresses."""
        return _went_live(await history.get(project, (await _live(project)).deployment))

    @routes.delete("/v1/projects/<project>", "owner")
    async def remove(project: str) -> RemovedOut:
        """Remove a project and all that it stores. With a quota, this requires an owner of all projects."""
        caller = principal()
        if await service.quotas.get(project) != NO_QUOTA:
            require(ALL_PROJECTS, "owner")
        await service.remove(project, caller.name)
        return RemovedOut(removed=project)

    async def _live(project: str) -> Live:
        live = await history.live(project)
        if live is None:
            raise NotFound(f"{project} has no live deployment", "Deploy it with `svc deploy`.")
        return live

    def address(deployment: Deployment) -> str | None:
        front = deployment.served(NO_PROJECT_DIR).front
        return url_of(deployment.project, "") if front is not None else None

    def _went_live(deployment: Deployment) -> LiveOut:
        return LiveOut(
            deployment=_deployment(deployment, True),
            address=address(deployment),
            addresses=AddressOut.of(deployment.served(NO_PROJECT_DIR), url_of),
        )

    @routes.get("/v1/projects/<project>/secrets", "viewer")
    async def secrets(project: str) -> SecretList:
        """List the names of the project's secrets."""
        return SecretList(secrets=await service.secrets.names(project))

    @routes.put("/v1/projects/<project>/secrets/<secret>", "deployer")
    async def set_secret(project: str, secret: str, data: SecretRequest) -> SecretList:
        """Set a secret; it applies from the next request."""
        await service.change(project, service.secrets.set(project, secret, data.value))
        return SecretList(secrets=await service.secrets.names(project))

    @routes.delete("/v1/projects/<project>/secrets/<secret>", "deployer")
    async def remove_secret(project: str, secret: str) -> SecretList:
        """Remove a secret."""
        if not await service.change(project, service.secrets.remove(project, secret)):
            raise NotFound(f"{project} has no secret {secret}", "Run `svc secret list` to list the secrets.")
        return SecretList(secrets=await service.secrets.names(project))

    return routes


def _deployment(deployment: Deployment, live: bool) -> DeploymentOut:
    artifacts = {name: part.artifact for name, part in deployment.resources.items()}
    return DeploymentOut.from_value(deployment, live=live, resources=artifacts)
