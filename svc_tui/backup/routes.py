"""The route that restores the tables of a live project from the backup of its service."""

from quart import Blueprint

from engine.control.app import Routes, require
from engine.control.projects import Projects
from engine.control.schemas import StrictModel
from engine.errors import SvcError
from svc_tui.backup.restore import NOW_NS, parse_time
from svc_tui.backup.shipper import Backup, LiveRestore


class RestoreRequest(StrictModel):
    """The moment to restore: a time in ISO 8601, or that before a deployment; by default the last one."""

    at: str = ""
    before_deployment: str = ""


def blueprint(projects: Projects, backup: Backup | None) -> Blueprint:
    """Return the route. It raises `SvcError` in a service without a backup."""
    routes = Routes("restore", __name__)

    @routes.post("/v1/projects/<project>/restore")
    async def restore(project: str, data: RestoreRequest) -> LiveRestore:
        """Replace the tables of a project by those of a moment; needs the role owner."""
        require(project, "owner")
        projects.data_dir(project)
        if backup is None:
            raise SvcError(
                "this service has no backup", "It needs --backup URL when it starts.", code="backup"
            )
        time_ns = parse_time(data.at) if data.at else NOW_NS
        return await backup.restore(project, time_ns, data.before_deployment)

    return routes
