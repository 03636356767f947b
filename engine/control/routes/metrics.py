"""Route for the metrics of the service in the OpenMetrics format, such as Prometheus reads it."""

from collections.abc import Awaitable, Callable

from quart import Blueprint, Response

from engine.control.access import ALL_PROJECTS
from engine.control.app import principal, require
from engine.control.openapi import sends
from engine.control.project_threads import ProjectThreads
from engine.metrics.families import ServiceState, exposition, families, guest_families, prometheus
from engine.metrics.meter import ServiceMeter

MEDIA_TYPE = "application/openmetrics-text"


def blueprint(meter: ServiceMeter, state: Callable[[], Awaitable[ServiceState]]) -> Blueprint:
    """Return the route."""
    routes = Blueprint("metrics", __name__)
    threads = ProjectThreads("metrics", threads=2)

    @routes.get("/metrics")
    @sends(MEDIA_TYPE)
    async def metrics() -> Response:
        """Return the metrics of the caller's projects, and of the service for viewers of all projects."""
        caller = principal()
        now = await state() if caller.role(ALL_PROJECTS) else None

        def text() -> tuple[bytes, str]:
            meters = meter.read()
            visible = {key: each for key, each in meters.items() if caller.role(key[0] or ALL_PROJECTS)}
            return exposition(families(visible, now))

        body, media_type = await threads.run("", text)
        return Response(body, content_type=media_type)

    @routes.get("/v1/projects/<project>/metrics")
    @sends(MEDIA_TYPE)
    async def project_metrics(project: str) -> Response:
        """Return the metrics that the code of a project sent. Requires the role viewer."""
        require(project, "viewer")

        def text() -> tuple[bytes, str]:
            return exposition(prometheus(guest_families(meter.series(project))))

        body, media_type = await threads.run(project, text)
        return Response(body, content_type=media_type)

    return routes
