"""Deploys over the control API: what would change, uploads, going live, history, rollback.

Owns the routes. What a deploy is and when it may go live is the service's (`engine/service`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict

from quart import Blueprint, Response, request
from quart_schema import validate_querystring, validate_request, validate_response

from engine.bucket.protocols import Conflict, as_digest
from engine.control import ndjson, openapi
from engine.control.app import internal_error, require
from engine.control.errors import NotFound, problem_members
from engine.control.schemas import deployments as types
from engine.control.schemas.accounts import iso
from engine.deploy.deployment import DeployedResource, Deployment
from engine.deploy.history import Live
from engine.errors import SvcError
from engine.service.deployer import Deployer
from engine.service.policy import Change
from engine.service.spec import DeploySpec, read_packages, read_project

MAX_BLOB_BYTES = 1 << 30
"""Bytes of one file of an artifact."""


def blueprint(service: Deployer, url_of: Callable[[str, str], str]) -> Blueprint:
    """Return the routes; `url_of` gives the address of a Resource of a Project."""
    routes = Blueprint("deployments", __name__)
    history, blobs = service.history, service.bucket.blobs

    @routes.post("/v1/projects/<project>/plan")
    @validate_request(types.PlanRequest)
    @validate_response(types.PlanOut)
    async def plan(project: str, data: types.PlanRequest) -> types.PlanOut:
        """Say what a deploy would change, and what has to be uploaded for it."""
        require(project, "deployer")
        wanted = await asyncio.to_thread(read_project, data.manifest, project)
        read_packages(wanted, {name: part.package for name, part in data.parts.items()})
        resources = {
            name: DeployedResource.of(
                resource,
                as_digest(data.parts[name].package),
                as_digest(data.parts[name].artifact),
                data.parts[name].imports,
            )
            for name, resource in wanted.resources.items()
        }
        sizes = {as_digest(part.package): part.size for part in data.parts.values()}
        live = await history.live(project)
        found = await service.changes(project, resources, sizes)
        missing = [digest for digest in data.blobs if not await blobs.touch(as_digest(digest))]
        revision, name = (live.revision, live.deployment) if live is not None else (None, None)
        return types.PlanOut(revision=revision, live=name, changes=_changes(found), missing=missing)

    @routes.get("/v1/projects/<project>/blobs/<digest>")
    @validate_response(types.UploadOut)
    async def received(project: str, digest: str) -> types.UploadOut:
        """Say how many bytes of an upload there are, to go on from there."""
        require(project, "deployer")
        return types.UploadOut(received=await blobs.received(as_digest(digest)))

    @routes.put("/v1/projects/<project>/blobs/<digest>")
    @openapi.takes("application/octet-stream")
    @validate_querystring(types.UploadQuery)
    @validate_response(types.UploadOut)
    async def upload(project: str, digest: str, query_args: types.UploadQuery) -> types.UploadOut:
        """Take a content, or the rest of it."""
        require(project, "deployer")
        size, offset = query_args.size, query_args.offset
        if size > MAX_BLOB_BYTES:
            raise SvcError(f"a file of {size} bytes is larger than a service takes", code="body-too-large")
        stored = await blobs.upload(as_digest(digest), size, offset, request.body)
        if isinstance(stored, Conflict):
            raise SvcError(
                f"the upload is at {stored.current} bytes, not at {offset}",
                "Go on from there.",
                code="conflict",
            )
        return types.UploadOut(received=stored)

    @routes.post("/v1/projects/<project>/deployments")
    @openapi.sends(ndjson.MEDIA_TYPE)
    @validate_request(types.DeployRequest)
    async def deploy(project: str, data: types.DeployRequest) -> Response:
        """Have a manifest go live. Answers NDJSON: steps, then what is live (`done`) or why not (`error`)."""
        asking = require(project, "deployer")
        wanted = await asyncio.to_thread(read_project, data.manifest, project)
        order = DeploySpec(
            wanted,
            read_packages(wanted, data.packages),
            asking.name,
            data.revision,
            data.commit,
            data.message,
            data.allow_new_capability,
            data.tables,
        )
        return ndjson.ndjson_response(_progress(order))

    async def _progress(order: DeploySpec) -> AsyncIterator[bytes]:
        try:
            async for step in service.deploy(order):
                if isinstance(step, Deployment):
                    yield ndjson.line({"done": _went_live(step).model_dump(mode="json")})
                else:
                    yield ndjson.line({"step": step.step, "text": step.text})
        except SvcError as error:
            yield ndjson.line({"error": problem_members(error)})
        except Exception as error:
            yield ndjson.line({"error": problem_members(internal_error(error))})

    @routes.get("/v1/projects/<project>/deployments")
    @validate_response(types.DeploymentList)
    async def deployments(project: str) -> types.DeploymentList:
        """List the deployments that are kept, and what went live when."""
        require(project, "viewer")
        live = await history.live(project)
        return types.DeploymentList(
            revision=live.revision if live is not None else None,
            deployments=[
                _deployment(each, live is not None and each.id == live.deployment)
                for each in await history.deployments(project)
            ],
            flips=[
                types.ActivationOut(
                    deployment=flip.deployment, at=iso(flip.at_ns), by=flip.by, message=flip.message
                )
                for flip in reversed(live.flips if live is not None else ())
            ],
        )

    @routes.get("/v1/projects/<project>/deployments/<deployment>/rollback")
    @validate_response(types.RollbackPlanOut)
    async def rollback_plan(project: str, deployment: str) -> types.RollbackPlanOut:
        """Say what a rollback to this deployment would change."""
        require(project, "deployer")
        live = await _live(project)
        found = await service.rollback_changes(project, deployment)
        return types.RollbackPlanOut(revision=live.revision, live=live.deployment, changes=_changes(found))

    @routes.post("/v1/projects/<project>/rollback")
    @validate_request(types.RollbackRequest)
    @validate_response(types.LiveOut)
    async def rollback(project: str, data: types.RollbackRequest) -> types.LiveOut:
        """Have an older deployment go live again."""
        asking = require(project, "deployer")
        await _live(project)
        deployment = await service.rollback(
            project, data.deployment, by=asking.name, message=data.message, revision=data.revision
        )
        return _went_live(deployment)

    @routes.get("/v1/projects/<project>")
    @validate_response(types.LiveOut)
    async def live(project: str) -> types.LiveOut:
        """Say what is live, and where."""
        require(project, "viewer")
        return _went_live(await history.get(project, (await _live(project)).deployment))

    async def _live(project: str) -> Live:
        found = await history.live(project)
        if found is None:
            raise NotFound(f"nothing of {project} is live", "Deploy it with `svc deploy`.")
        return found

    def _went_live(deployment: Deployment) -> types.LiveOut:
        mounted: dict[str, list[str]] = {}
        for resource in deployment.resources.values():
            for mount in resource.mounts:
                mounted.setdefault(mount.target, []).append(f"{resource.name}:{mount.pattern}")
        return types.LiveOut(
            deployment=_deployment(deployment, True),
            addresses=[
                types.AddressOut(
                    resource=name,
                    lane=resource.lane,
                    url=url_of(deployment.project, name) if resource.public else None,
                    mounted=mounted.get(name, []),
                )
                for name, resource in deployment.resources.items()
            ],
        )

    @routes.get("/v1/projects/<project>/secrets")
    @validate_response(types.SecretList)
    async def secrets(project: str) -> types.SecretList:
        """List the names of the Project's secrets."""
        require(project, "viewer")
        return types.SecretList(secrets=await service.secrets.names(project))

    @routes.put("/v1/projects/<project>/secrets/<secret>")
    @validate_request(types.SecretRequest)
    @validate_response(types.SecretList)
    async def set_secret(project: str, secret: str, data: types.SecretRequest) -> types.SecretList:
        """Give a secret a value; guests have it from their next request on."""
        require(project, "deployer")
        await service.set_secret(project, secret, data.value)
        return types.SecretList(secrets=await service.secrets.names(project))

    @routes.delete("/v1/projects/<project>/secrets/<secret>")
    @validate_response(types.SecretList)
    async def remove_secret(project: str, secret: str) -> types.SecretList:
        """Remove a secret."""
        require(project, "deployer")
        if not await service.remove_secret(project, secret):
            raise NotFound(f"{project} has no secret {secret}", "`svc secret list` shows those it has.")
        return types.SecretList(secrets=await service.secrets.names(project))

    return routes


def _changes(found: list[Change]) -> list[types.ChangeOut]:
    return [types.ChangeOut(**asdict(change)) for change in found]


def _deployment(deployment: Deployment, live: bool) -> types.DeploymentOut:
    return types.DeploymentOut(
        id=deployment.id,
        project=deployment.project,
        created=iso(deployment.created_ns),
        by=deployment.by,
        commit=deployment.commit,
        message=deployment.message,
        live=live,
        resources={name: part.artifact for name, part in deployment.resources.items()},
    )
