"""Routes for the quotas of projects. An owner of every project changes them, viewers of a project see its."""

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS
from engine.control.app import require
from engine.control.schemas.quotas import QuotaOut, QuotaRequest
from engine.quota import NO_QUOTA
from engine.service.deployer import Deployer


def blueprint(service: Deployer) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("quotas", __name__)

    @routes.get("/v1/projects/<project>/quota")
    @validate_response(QuotaOut)
    async def quota(project: str) -> QuotaOut:
        """Return the quota of a project."""
        require(project, "viewer")
        return QuotaOut.from_quota(await service.quotas.get(project))

    @routes.put("/v1/projects/<project>/quota")
    @validate_request(QuotaRequest)
    @validate_response(QuotaOut)
    async def set_quota(project: str, data: QuotaRequest) -> QuotaOut:
        """Change limits of a project, deployed or not. They apply from the next request."""
        require(ALL_PROJECTS, "owner")
        return QuotaOut.from_quota(await service.set_quota(project, data.model_dump(exclude_unset=True)))

    @routes.delete("/v1/projects/<project>/quota")
    @validate_response(QuotaOut)
    async def remove_quota(project: str) -> QuotaOut:
        """Remove all limits of a project."""
        require(ALL_PROJECTS, "owner")
        limits = dict.fromkeys(NO_QUOTA.__dataclass_fields__)
        return QuotaOut.from_quota(await service.set_quota(project, limits))

    return routes
