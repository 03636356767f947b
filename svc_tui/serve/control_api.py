"""The control API of a service, and the data folders of its projects."""

from pathlib import Path
from typing import TYPE_CHECKING

from quart import Blueprint, Quart

from doors.tables.api.routes import blueprint as tables
from engine.control import projects
from engine.control.access import AnyOf, Authenticator
from engine.control.app import create_app
from engine.control.auth import routes, user_routes
from engine.control.auth.routes import AuthServices
from engine.control.projects import unknown_project
from engine.control.routes import deployments, fleet, gc, logs, manifest, quotas, state, usage
from engine.control.routes.manifest import DeployedManifest
from engine.control.routes.state import StatusSource
from engine.fleet.fleet import Fleet
from engine.manifest.schema import is_name
from engine.service.deployer import Deployer
from svc_tui.composition import door_stats

if TYPE_CHECKING:
    from svc_tui.serve.fleet_node import NodeOfFleet
    from svc_tui.serve.server import ServiceSettings

SERVICE_DIR = "service"
"""Data folder of the service itself. It cannot collide with projects, which have their own folder."""


class ProjectDirs:
    """The deployed projects and their data folders."""

    def __init__(self, data: Path, service: Deployer) -> None:
        self._data = data
        self._service = service

    async def names(self) -> list[str]:
        """Return the names of the deployed projects."""
        return [live.project for live in await self._service.history.all_live(lambda error: None)]

    def data_dir(self, project: str) -> Path:
        """Return a project's data folder. Raises `NotFound`."""
        if not is_name(project):
            raise unknown_project(project)
        return project_dir(self._data, project)


def project_dir(data: Path, project: str) -> Path:
    """Return a project's data folder within the service's."""
    return data / "projects" / project if project else data / SERVICE_DIR


def create_control_api(
    service: Deployer,
    settings: "ServiceSettings",
    auth: AuthServices,
    project_dirs: ProjectDirs,
    *,
    local: Authenticator,
    status: StatusSource,
    node: Fleet,
    peers: "NodeOfFleet",
    metrics: Blueprint,
) -> Quart:
    """Return the service's control API.

    `local` authenticates readers of the data directory, `peers` has the other nodes of the fleet.
    """
    subjects = (
        routes.blueprint(auth),
        user_routes.blueprint(auth),
        projects.blueprint(project_dirs),
        tables(project_dirs),
        usage.blueprint(project_dirs, status.memory),
        logs.blueprint(project_dirs),
        manifest.blueprint(DeployedManifest(service)),
        state.blueprint(status, project_dirs, door_stats()),
        quotas.blueprint(service),
        gc.blueprint(service.collect_garbage),
        fleet.blueprint(node, peers.facts, peers.repair),
        deployments.blueprint(service, settings.url_of),
        metrics,
    )
    return create_app(AnyOf(local, auth.sessions), subjects, in_fleet=peers.records is not None)
