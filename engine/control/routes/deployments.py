"""Routes for deploys: plan, upload, deploy, history, rollback and secrets.

`engine/service` implements deploys and their rules.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

from quart import Response, request

from engine.bucket.protocols import StaleRevision, as_digest
from engine.control import ndjson
from engine.control.access import ALL_PROJECTS
from engine.control.app import Routes, internal_error, principal, require
from engine.control.errors import NotFound, problem_members
from engine.control.project_threads import ProjectThreads
from engine.control.schemas import deployments as types
from engine.deploy.deployment import DeployedResource, Deployment, Live
from engine.errors import SvcError
from engine.quota import NO_QUOTA
from engine.service.deployer import NO_PROJECT_DIR, Deployer, DeploySpec, read_packages, read_project

MAX_BLOB_BYTES = 1 << 30
"""Maximum size of one file of an artifact."""


def blueprint(service: Deployer, url_of: Callable[[str, str], str]) -> Routes:
    """Return the routes, which raise `SvcError` and `NotFound`. `url_of` is that of `ServiceSettings`."""
    routes = Routes("deployments", __name__)
    history, blobs = service.history, service.bucket.blobs
    threads = ProjectThreads("manifests")

    @routes.post("/v1/projects/<project>/plan", "deployer")
    async def plan(project: str, data: types.PlanRequest) -> types.PlanOut:
        """Return what a deploy would change, and which blobs must be uploaded."""
        caller = principal()
        manifest_project = await threads.run(project, partial(read_project, data.manifest, project))
        may_view = partial(caller.has, role="viewer")
        await service.domains.check_free(project, manifest_project.domains, may_view)
        read_packages(manifest_project, {name: built.package for name, built in data.resources.items()})
        resources = {}
        for key, resource in manifest_project.resources.items():
            built = data.resources[key]
            package, artifact = as_digest(built.package), as_digest(built.artifact)
            resources[key] = DeployedResource.of(resource, package, artifact, built.imports)
        sizes = {as_digest(built.package): built.size for built in data.resources.values()}
        live = await history.live(project)
        changes = await service.changes(project, manifest_project, resources, sizes)
        missing = [digest for digest in data.blobs if not await blobs.touch(as_digest(digest))]
        revision, name = (live.revision, live.deployment) if live is not None else (None, None)
        changed = list(map(types.ChangeOut.from_value, changes))
        return types.PlanOut(revision=revision, live=name, changes=changed, missing=missing)

    @routes.get("/v1/projects/<project>/blobs/<digest>", "deployer")
    async def received(project: str, digest: str) -> types.UploadOut:
        """Return how many bytes of an upload were received, as the offset to resume at."""
        return types.UploadOut(received=await blobs.received(as_digest(digest), project))

    @routes.put("/v1/projects/<project>/blobs/<digest>", "deployer", takes="application/octet-stream")
    async def upload(project: str, digest: str, query_args: types.UploadQuery) -> types.UploadOut:
        """Receive a blob, or the rest of one."""
        size, offset = query_args.size, query_args.offset
        if size > MAX_BLOB_BYTES:
            raise SvcError(f"the file has {size} bytes; the limit is {MAX_BLOB_BYTES}", code="body-too-large")
        stored = await blobs.upload(as_digest(digest), size, offset, request.body, project)
        if isinstance(stored, StaleRevision):
            hint = "Resume at that offset."
            raise SvcError(f"the upload has {stored.current} bytes, not {offset}", hint, code="conflict")
        return types.UploadOut(received=stored)

    @routes.post("/v1/projects/<project>/deployments", "deployer", sends=[ndjson.MEDIA_TYPE])
    async def deploy(project: str, data: types.DeployRequest) -> Response:
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
    async def deployments(project: str) -> types.DeploymentList:
        """List the retained deployments and the activations."""
        live, listed = await history.live(project), await history.deployments(project)
        serving = [each for each in listed if live is not None and each.id == live.deployment]
        return types.DeploymentList(
            revision=live.revision if live is not None else None,
            address=address(serving[0]) if serving else None,
            deployments=[_deployment(each, each in serving) for each in listed],
            activations=list(map(types.ActivationOut.from_value, reversed(live.activations if live else ()))),
        )

    @routes.get("/v1/projects/<project>/deployments/<deployment>/rollback", "deployer")
    async def rollback_plan(project: str, deployment: str) -> types.RollbackPlanOut:
        """Return what a rollback to this deployment would change."""
        live = await _live(project)
        changes = map(types.ChangeOut.from_value, await service.rollback_changes(project, deployment))
        return types.RollbackPlanOut(revision=live.revision, live=live.deployment, changes=list(changes))

    @routes.post("/v1/projects/<project>/rollback", "deployer")
    async def rollback(project: str, data: types.RollbackRequest) -> types.LiveOut:
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
    async def live(project: str) -> types.LiveOut:
        """Return the live deployment and its addresses."""
        return _went_live(await history.get(project, (await _live(project)).deployment))

    @routes.delete("/v1/projects/<project>", "owner")
    async def remove(project: str) -> types.RemovedOut:
        """Remove a project and all that it stores. With a quota, this requires an owner of all projects."""
        caller = principal()
        if await service.quotas.get(project) != NO_QUOTA:
            require(ALL_PROJECTS, "owner")
        await service.remove(project, caller.name)
        return types.RemovedOut(removed=project)

    async def _live(project: str) -> Live:
        live = await history.live(project)
        if live is None:
            raise NotFound(f"{project} has no live deployment", "Deploy it with `svc deploy`.")
        return live

    def address(deployment: Deployment) -> str | None:
        front = deployment.served(NO_PROJECT_DIR).front
        return url_of(deployment.project, "") if front is not None else None

    def _went_live(deployment: Deployment) -> types.LiveOut:
        return types.LiveOut(
            deployment=_deployment(deployment, True),
            address=address(deployment),
            addresses=types.AddressOut.of(deployment.served(NO_PROJECT_DIR), url_of),
        )

    @routes.get("/v1/projects/<project>/secrets", "viewer")
    async def secrets(project: str) -> types.SecretList:
        """List the names of the project's secrets."""
        return types.SecretList(secrets=await service.secrets.names(project))

    @routes.put("/v1/projects/<project>/secrets/<secret>", "deployer")
    async def set_secret(project: str, secret: str, data: types.SecretRequest) -> types.SecretList:
        """Set a secret; it applies from the next request."""
        await service.set_secret(project, secret, data.value)
        return types.SecretList(secrets=await service.secrets.names(project))

    @routes.delete("/v1/projects/<project>/secrets/<secret>", "deployer")
    async def remove_secret(project: str, secret: str) -> types.SecretList:
        """Remove a secret."""
        if not await service.remove_secret(project, secret):
            raise NotFound(f"{project} has no secret {secret}", "Run `svc secret list` to list the secrets.")
        return types.SecretList(secrets=await service.secrets.names(project))

    return routes


def _deployment(deployment: Deployment, live: bool) -> types.DeploymentOut:
    artifacts = {name: part.artifact for name, part in deployment.resources.items()}
    return types.DeploymentOut.from_value(deployment, live=live, resources=artifacts)
