"""Routes to operate a service: garbage collection, alerts and their test, and metrics in OpenMetrics."""

from collections.abc import Awaitable, Callable

from quart import Response

from engine.alerts.alerts import Alert, AlertMonitor, Attempt
from engine.control.access import ALL_PROJECTS
from engine.control.app import Routes, principal
from engine.control.project_threads import ProjectThreads
from engine.control.schemas import StrictModel
from engine.deploy.gc import GcReport
from engine.errors import SvcError
from engine.metrics.families import (
    ServiceMeter,
    ServiceState,
    exposition,
    families,
    guest_families,
    prometheus,
)


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


def gc_blueprint(collect: Callable[..., Awaitable[GcReport]]) -> Routes:
    """Return the route. `collect(count_only=)` removes data, or only counts it. Raises `GarbageError`."""
    routes = Routes("garbage", __name__)

    @routes.post("/v1/gc", "owner")
    async def gc(data: GcRequest) -> GcOut:
        """Remove data that no deployment needs and no deploy used within 24 hours."""
        return GcOut.from_value(await collect(count_only=data.plan), plan=data.plan)

    return routes


class AlertList(StrictModel):
    """The alerts that last, oldest first."""

    alerts: list[Alert]


class AttemptList(StrictModel):
    """The result for each receiver."""

    attempts: list[Attempt]


MEDIA_TYPE = "application/openmetrics-text"


def blueprint(
    monitor: AlertMonitor, meter: ServiceMeter, state: Callable[[], Awaitable[ServiceState]]
) -> Routes:
    """Return the routes of alerts and metrics. The test of alerts raises `SvcError` without a receiver."""
    routes = Routes("operation", __name__)
    threads = ProjectThreads("metrics", threads=2)

    @routes.get("/v1/alerts")
    async def alerts() -> AlertList:
        """Return the alerts of the caller's projects, and of the service for viewers of all projects."""
        caller, active = principal(), monitor.alerts.active()
        return AlertList(alerts=[each for each in active if caller.role(each.project or ALL_PROJECTS)])

    @routes.post("/v1/alerts/test", "owner")
    async def test() -> AttemptList:
        """Send a test alert to each receiver, once. Requires the role owner of every project."""
        if not monitor.senders:
            hint = "Start it with an address: svc serve --notify URL"
            raise SvcError("this service sends no alerts", hint)
        return AttemptList(attempts=await monitor.test())

    @routes.get("/metrics", sends=[MEDIA_TYPE])
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

    @routes.get("/v1/projects/<project>/metrics", "viewer", sends=[MEDIA_TYPE])
    async def project_metrics(project: str) -> Response:
        """Return the metrics that the code of a project sent. Requires the role viewer."""

        body, media_type = await threads.run(
            project, lambda: exposition(prometheus(guest_families(meter.series(project))))
        )
        return Response(body, content_type=media_type)

    return routes
