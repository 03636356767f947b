"""The control API of a service with its Console, and the data folders of its projects."""

import os
import secrets
from functools import partial
from pathlib import Path

from quart import request

from doors.files.api import blueprint as files
from doors.files.store import FileStore
from doors.tables.api.routes import blueprint as tables
from doors.tables.project_database import ProjectDatabase
from engine.bucket.protocols import Bucket
from engine.control import projects
from engine.control.access import AnyOf, StaticToken
from engine.control.app import create_app
from engine.control.auth import routes
from engine.control.auth.accounts import Accounts
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import Sessions
from engine.control.discovery import ControlEndpoint
from engine.control.projects import unknown_project
from engine.control.routes import (
    deployments,
    domains,
    fleet,
    jobs,
    logs,
    manifest,
    operation,
    quotas,
    schedules,
    state,
    usage,
)
from engine.control.routes.manifest import DeployedManifest
from engine.errors import SvcError
from engine.fleet.fleet import Fleet
from engine.http.asgi import asgi_handler
from engine.http.exchange import Handler
from engine.http.sockets import authority, bind
from engine.manifest.schema import is_name
from engine.quota import NO_QUOTA
from engine.service.deployer import Deployer
from svc_tui.backup.shipper import Backup
from svc_tui.backup.shipper import blueprint as restoring
from svc_tui.composition import doors
from svc_tui.console.web.hosted import HostedConsole
from svc_tui.console.web.pages import IDLE_SECONDS, Pages
from svc_tui.serve.runtime import Runtime
from svc_tui.serve.settings import ServiceSettings, project_dir

_OF_RUNNING = ("alerts.test", "certificate.", "domains.check", "restore.")
"""Routes, or groups of routes, that need a service that runs."""


class ProjectDirs:
    """The deployed projects and their data folders."""

    def __init__(self, data: Path, service: Deployer) -> None:
        self._data = data
        self._service = service

    async def names(self) -> list[str]:
        return [live.project for live in await self._service.history.all_live(lambda error: None)]

    def data_dir(self, project: str) -> Path:
        """Return a project's data folder. Raises `NotFound`."""
        if not is_name(project):
            raise unknown_project(project)
        return project_dir(self._data, project)


class Control:
    """The handlers of the control API and of the Console, and the endpoint for local clients.

    They connect by address. The certificate does not name it, so they get plain HTTP.
    """

    def __init__(
        self, settings: ServiceSettings, runtime: Runtime, bucket: Bucket, node: Fleet, backup: Backup | None
    ) -> None:
        self.local = local = settings.control if not settings.secure else bind("127.0.0.1", 0)
        # Its token gives access to readers of the data directory.
        self.endpoint = ControlEndpoint(
            f"http://{authority(local[0])}", secrets.token_urlsafe(32), os.getpid(), not settings.serving
        )
        accounts, deployer = Accounts(bucket.kv, settings.passwords), runtime.deployer
        auth = AuthServices(accounts, Sessions(bucket.kv, accounts), runtime.throttle)
        dirs, status, peers = ProjectDirs(settings.data, deployer), runtime.status(), runtime.peers

        def files_of(name: str) -> FileStore:
            quota = runtime.serving.quota(name) or NO_QUOTA
            return FileStore(ProjectDatabase(dirs.data_dir(name)), bucket.blobs, quota)

        names = domains.Names(deployer, runtime.domain_checks, runtime.certificates, settings.acme)
        subjects = (
            routes.blueprint(auth),
            routes.user_blueprint(auth),
            projects.blueprint(dirs),
            tables(dirs),
            files(files_of),
            usage.blueprint(dirs, status.memory),
            logs.blueprint(dirs),
            manifest.blueprint(DeployedManifest(deployer)),
            state.blueprint(status, dirs, doors()),
            quotas.blueprint(deployer),
            restoring(dirs, backup),
            domains.blueprint(names),
            domains.certificate_blueprint(names),
            schedules.blueprint(runtime.scheduler, runtime.serving.project),
            jobs.blueprint(runtime.jobs_of, runtime.jobs.wake),
            operation.gc_blueprint(deployer.collect_garbage),
            fleet.blueprint(node, peers.tables, peers.repair),
            deployments.blueprint(deployer, settings.url_of),
            operation.metrics_blueprint(runtime.meter, runtime.state),
            operation.alerts_blueprint(runtime.monitor),
        )
        access = AnyOf(StaticToken(self.endpoint.token), auth.sessions)
        in_fleet = peers.records is not None
        app = create_app(access, subjects, in_fleet=in_fleet, on_removal=runtime.removed.subscribe)
        if not settings.serving:
            app.before_request(partial(_refuse_stopped, settings.data))
        self.api = asgi_handler(app)
        self.pages = Pages(idle_seconds=IDLE_SECONDS) if settings.console else None
        self.console: Handler | None = None
        if self.pages is not None:
            hosted = HostedConsole(
                self.pages, auth, dirs.names, api=self.endpoint.url, address=settings.address
            )
            self.console = asgi_handler(hosted.application())

    def close(self) -> None:
        for sock in self.local:
            sock.close()


async def _refuse_stopped(data: Path) -> None:
    """Raise `SvcError` for a request whose response depends on the options of `svc serve`."""
    if (request.endpoint or "").startswith(_OF_RUNNING):
        raise SvcError(
            f"the service on {data} is stopped", f"Start it: svc serve --data {data}", code="unavailable"
        )
