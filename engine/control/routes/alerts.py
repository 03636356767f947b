"""Routes for the alerts that last, and for a test of their receivers."""

from quart import Blueprint
from quart_schema import validate_response

from engine.alerts.alerts import Alert
from engine.alerts.monitor import AlertMonitor, Attempt
from engine.control.access import ALL_PROJECTS
from engine.control.app import principal, require
from engine.control.schema import StrictModel
from engine.errors import SvcError


class AlertList(StrictModel):
    """The alerts that last, oldest first."""

    alerts: list[Alert]


class AttemptList(StrictModel):
    """The result for each receiver."""

    attempts: list[Attempt]


def blueprint(monitor: AlertMonitor) -> Blueprint:
    """Return the routes. The test raises `SvcError` without a receiver."""
    routes = Blueprint("alerts", __name__)

    @routes.get("/v1/alerts")
    @validate_response(AlertList)
    async def alerts() -> AlertList:
        """Return the alerts of the caller's projects, and of the service for viewers of all projects."""
        caller, active = principal(), monitor.alerts.active()
        return AlertList(alerts=[each for each in active if caller.role(each.project or ALL_PROJECTS)])

    @routes.post("/v1/alerts/test")
    @validate_response(AttemptList)
    async def test() -> AttemptList:
        """Send a test alert to each receiver, once. Requires the role owner of every project."""
        require(ALL_PROJECTS, "owner")
        if not monitor.senders:
            hint = "Start it with an address: svc serve --notify URL"
            raise SvcError("this service sends no alerts", hint)
        return AttemptList(attempts=await monitor.test())

    return routes
