"""Route for the metrics of the service in the OpenMetrics format, such as Prometheus reads it."""

import asyncio
from collections.abc import Awaitable, Callable

from quart import Blueprint, Response

from engine.control.access import ALL_PROJECTS
from engine.control.app import principal
from engine.control.openapi import sends
from engine.metrics.families import ServiceState, families
from engine.metrics.meter import ServiceMeter
from engine.metrics.openmetrics import text_of

MEDIA_TYPE = "application/openmetrics-text"


def blueprint(meter: ServiceMeter, state: Callable[[], Awaitable[ServiceState]]) -> Blueprint:
    """Return the route."""
    routes = Blueprint("metrics", __name__)

    @routes.get("/metrics")
    @sends(MEDIA_TYPE)
    async def metrics() -> Response:
        """Return the metrics of the caller's projects, and of the service for viewers of all projects."""
        caller = principal()
        now = await state() if caller.role(ALL_PROJECTS) else None

        def text() -> tuple[bytes, str]:
            meters = meter.read()
            visible = {key: each for key, each in meters.items() if caller.role(key[0] or ALL_PROJECTS)}
            return text_of(families(visible, now))

        body, media_type = await asyncio.to_thread(text)
        return Response(body, content_type=media_type)

    return routes
