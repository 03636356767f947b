"""Route for garbage collection, for owners of every project."""

from typing import Protocol

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS
from engine.control.app import require
from engine.control.schema import StrictModel
from engine.deploy.gc import GcReport


class CollectGarbage(Protocol):
    """Removes data that no deployment needs, or only counts it."""

    async def __call__(self, *, count_only: bool) -> GcReport:
        """Return what was removed, or would be. Raises `GarbageError`."""


class GcRequest(StrictModel):
    """Whether to report only what would be removed."""

    plan: bool = False


class GcOut(StrictModel):
    """The removed (or removable) blobs and their bytes, abandoned uploads and unpacked packages."""

    plan: bool
    blobs: int
    bytes: int
    uploads: int
    unpacked: int


def blueprint(sweep: CollectGarbage) -> Blueprint:
    """Return the route."""
    routes = Blueprint("garbage", __name__)

    @routes.post("/v1/gc")
    @validate_request(GcRequest)
    @validate_response(GcOut)
    async def gc(data: GcRequest) -> GcOut:
        """Remove data that no deployment needs and no deploy used within 24 hours."""
        require(ALL_PROJECTS, "owner")
        swept = await sweep(count_only=data.plan)
        return GcOut(
            plan=data.plan,
            blobs=swept.blobs,
            bytes=swept.size,
            uploads=swept.uploads,
            unpacked=swept.unpacked,
        )

    return routes
