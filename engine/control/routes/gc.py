"""Route for garbage collection, for owners of every project."""

from collections.abc import Awaitable, Callable

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS
from engine.control.app import require
from engine.control.schema import StrictModel
from engine.deploy.gc import GcReport


class GcRequest(StrictModel):
    """Whether to report only what would be removed."""

    plan: bool = False


class GcOut(StrictModel):
    """The removed (or removable) blobs and their bytes, abandoned uploads, unpacked packages and files of
    machine code.
    """

    plan: bool
    blobs: int
    bytes: int
    uploads: int
    unpacked: int
    machine_code: int


def blueprint(collect: Callable[..., Awaitable[GcReport]]) -> Blueprint:
    """Return the route. `collect(count_only=)` removes data, or only counts it. Raises `GarbageError`."""
    routes = Blueprint("garbage", __name__)

    @routes.post("/v1/gc")
    @validate_request(GcRequest)
    @validate_response(GcOut)
    async def gc(data: GcRequest) -> GcOut:
        """Remove data that no deployment needs and no deploy used within 24 hours."""
        require(ALL_PROJECTS, "owner")
        report = await collect(count_only=data.plan)
        return GcOut(
            plan=data.plan,
            blobs=report.blobs,
            bytes=report.size,
            uploads=report.uploads,
            unpacked=report.unpacked,
            machine_code=report.machine_code,
        )

    return routes
