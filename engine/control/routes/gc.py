"""The control API's way to remove what no deployment needs. Owns this route; for owners of every Project."""

from typing import Protocol

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import EVERY_PROJECT
from engine.control.app import require
from engine.control.schema import Shape
from engine.deploy.gc import Swept


class Sweep(Protocol):
    """Removes what no deployment needs, or only counts it."""

    async def __call__(self, *, count_only: bool) -> Swept:
        """Return what was removed, or would be. Raises `GarbageError`."""
        ...


class SweepWish(Shape):
    """Whether to say only what would be removed."""

    plan: bool = False


class SweptShown(Shape):
    """What was removed, or would be: contents, their bytes, uploads given up, unpacked packages."""

    plan: bool
    contents: int
    bytes: int
    uploads: int
    unpacked: int


def blueprint(sweep: Sweep) -> Blueprint:
    """Return the route."""
    routes = Blueprint("garbage", __name__)

    @routes.post("/v1/gc")
    @validate_request(SweepWish)
    @validate_response(SweptShown)
    async def gc(data: SweepWish) -> SweptShown:
        """Remove what no deployment needs and no deploy used within 24 hours."""
        require(EVERY_PROJECT, "owner")
        swept = await sweep(count_only=data.plan)
        return SweptShown(
            plan=data.plan,
            contents=swept.blobs,
            bytes=swept.size,
            uploads=swept.uploads,
            unpacked=swept.unpacked,
        )

    return routes
