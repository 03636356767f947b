"""Composition of a service: bucket, engine, Doors, control API and sockets. Run by `svc serve`."""

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from quart import Quart

from doors.tables.api.routes import blueprint as tables
from doors.tables.migrations import FOLDER
from engine.bucket.folder import FolderBucket
from engine.control import projects
from engine.control.access import AnyOf, Authenticator, StaticToken
from engine.control.app import create_app
from engine.control.auth import routes, token_routes, user_routes
from engine.control.auth.accounts import Accounts, claim_code
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.passwords import Passwords
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import Sessions
from engine.control.discovery import Endpoint, publish_endpoint, remove_endpoint
from engine.control.projects import unknown_project
from engine.control.routes import deployments, gc, logs, manifest, state, usage
from engine.control.routes.manifest import DeployedManifest
from engine.control.routes.state import ServiceStatus
from engine.deploy.serving import ServingTable
from engine.deploy.tenants import Tenants
from engine.deploy.versions import VersionFactory
from engine.errors import SvcError
from engine.gateway.app import MAX_BODY, Gateway, GatewaySettings
from engine.http.connection_limits import PER_ADDRESS, Peers
from engine.http.server import serve
from engine.http.sockets import authority, bind
from engine.http.tls import Certificate
from engine.log_forwarding import LogForwarder
from engine.manifest.schema import is_name
from engine.service.deployer import Deployer
from engine.service.gc_schedule import run_gc_daily
from engine.timeline import database
from engine.timeline.bus import TimelineBus
from engine.timeline.rates import RateMeter
from engine.timeline.recorder import TimelineRecorder
from engine.usage import store
from engine.usage.recorder import UsageRecorder
from engine.wasm.execution.runner import Runner
from engine.workers.pool import WorkerPool
from engine.workers.protocol import WorkerConfig
from svc_tui.composition import door_stats, doors, migrate

SERVICE_DIR = "service"
"""Data folder of the service itself. It cannot collide with projects, which have their own folder."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How to serve. `public` has a list of bound sockets for each process; `grace` is in seconds.

    `origin` is the scheme and port of public URLs: `https://{}`, `http://{}:8080`.
    """

    data: Path
    public: list[list[socket.socket]]
    control: list[socket.socket]
    domain: str
    origin: str
    certificate: Certificate | None
    grace: float
    log: Callable[[str, str], None]
    """Takes a level and a line for the service's log."""
    per_address: int = PER_ADDRESS
    """Maximum connections per client address in each process, 0 for no limit."""
    proxied: bool = False
    """Whether a reverse proxy terminates TLS."""
    max_body: int = MAX_BODY
    """Maximum request body in bytes."""
    passwords: Passwords = field(default_factory=Passwords)
    """Password hashing and its cost."""

    @property
    def scheme(self) -> str:
        """Scheme of a TLS-terminating proxy, else empty."""
        return "https" if self.proxied else ""

    @property
    def gateway(self) -> GatewaySettings:
        """Settings of the gateway."""
        return GatewaySettings(max_body=self.max_body, scheme=self.scheme)

    def url_of(self, project: str, resource: str) -> str:
        """Return the public URL of a resource."""
        return self.origin.format(f"{resource}--{project}.{self.domain}")


class ProjectDirs:
    """The deployed projects and their data folders."""

    def __init__(self, data: Path, service: Deployer) -> None:
        self._data = data
        self._service = service

    async def names(self) -> list[str]:
        """Return the names of the deployed projects."""
        return [live.project for live in await self._service.history.all_live()]

    def data_dir(self, project: str) -> Path:
        """Return a project's data folder. Raises `NotFound`."""
        if not is_name(project):
            raise unknown_project(project)
        return project_dir(self._data, project)


def project_dir(data: Path, project: str) -> Path:
    """Return a project's data folder within the service's."""
    return data / "projects" / project if project else data / SERVICE_DIR


@contextlib.asynccontextmanager
async def run_service(settings: ServiceSettings, stop: asyncio.Event) -> AsyncIterator[asyncio.Future[Any]]:
    """Serve live deployments and accept deploys until `stop` is set; yields a future of the servers.

    Raises `SvcError` if the data folder cannot be used.
    """
    bucket = FolderBucket(settings.data, "svc serve")
    faults = LogForwarder(settings.log)
    recorders: list[TimelineRecorder | UsageRecorder] = []
    rates: dict[str, RateMeter] = {}

    def warn(error: SvcError) -> None:
        settings.log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)

    def made(project: str, feed: TimelineBus) -> None:
        folder = project_dir(settings.data, project)
        recorders.append(TimelineRecorder(folder / database.TIMELINE_FILE, feed, warn))
        recorders.append(UsageRecorder(folder / store.USAGE_FILE, feed, warn))
        rates[project] = RateMeter(lambda: site.project(project))
        feed.subscribe(rates[project])

    runner = Runner(settings.data / "cache")
    tenants = Tenants(doors(), lambda project: project_dir(settings.data, project), made)
    site = ServingTable(
        VersionFactory(runner, "deploy", lambda line: None, tenants.doors), settings.domain, front=False
    )
    fleet = _fleet(settings, tenants) if len(settings.public) > 1 else None
    service = Deployer(
        bucket,
        settings.data / "unpacked",
        site,
        tenants,
        settings.domain,
        publish=fleet.publish if fleet else None,
        migrate=partial(_migrate, settings.data),
    )
    gateway = Gateway(lambda: site.routes, tenants.timeline, settings.gateway)

    sockets, grace, certificate = settings.public, settings.grace, settings.certificate
    serving: asyncio.Future[Any] | None = None
    presence: Endpoint | None = None
    sweeping = asyncio.create_task(run_gc_daily(bucket.kv, service.collect_garbage, settings.log))
    faults.install()
    try:
        await service.start(warn)
        if (code := await claim_code(bucket)) is not None:
            settings.log("info", f"this service has no owner yet; claim it with the code {code}")
        if fleet is not None:
            public = fleet.run(stop)
        else:
            peers = Peers(settings.per_address)
            public = serve(gateway, sockets[0], stop=stop, grace=grace, certificate=certificate, peers=peers)
        # Local clients connect by address, which the certificate does not name, so they get plain HTTP.
        local = settings.control if certificate is None else bind("127.0.0.1", 0)
        presence = _presence(local)
        told = ServiceStatus(site, rates, tenants.uses, settings.url_of)
        api = create_control_api(service, settings, StaticToken(presence.token), told)
        publish_endpoint(settings.data, presence)
        peers = Peers(settings.per_address)
        served = [serve(api, settings.control, stop=stop, grace=grace, certificate=certificate, peers=peers)]
        if certificate is not None:
            served.append(serve(api, local, stop=stop, grace=grace))
        serving = asyncio.gather(public, *served)
        yield serving
    finally:
        stop.set()
        sweeping.cancel()
        if presence is not None:
            remove_endpoint(settings.data, presence)
        if serving is not None:
            await serving
        runner.stop_all()
        await service.aclose()
        await asyncio.wait([sweeping])
        await runner.aclose()
        await tenants.aclose()
        for recorder in recorders:
            recorder.close()
        await bucket.aclose()
        faults.uninstall()


async def _migrate(data: Path, project: str, files: Mapping[str, str]) -> None:
    """Apply a project's migrations by file name."""

    def apply() -> None:
        with tempfile.TemporaryDirectory(prefix="svc-migrations-") as folder:
            tables = Path(folder) / FOLDER
            tables.mkdir()
            for name, text in files.items():
                (tables / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            migrate(Path(folder), project_dir(data, project))

    try:
        await asyncio.to_thread(apply)
    except OSError as error:
        raise SvcError(
            f"cannot apply the migrations of {project}: {error.strerror}",
            "Check that the service's disk and the disk for temporary files have space.",
        ) from error


def _fleet(settings: ServiceSettings, tenants: Tenants) -> WorkerPool:
    data = settings.data
    start = WorkerConfig(
        *(True, data / "projects", data / "cache", "deploy", settings.domain, False, settings.grace),
        settings.certificate,
        settings.per_address,
        settings.scheme,
        settings.max_body,
    )
    return WorkerPool(
        settings.public,
        start,
        tenants.timeline,
        tenants.uses,
        lambda text: settings.log("warning", text),
        "svc_tui.worker",
    )


def _presence(sockets: list[socket.socket]) -> Endpoint:
    """Return the local endpoint, whose token gives access to readers of the data folder."""
    return Endpoint(f"http://{authority(sockets[0])}", secrets.token_urlsafe(32), os.getpid())


def create_control_api(
    service: Deployer, settings: ServiceSettings, local: Authenticator, serving: ServiceStatus
) -> Quart:
    """Return the service's control API. `local` authenticates readers of the data folder."""
    accounts = Accounts(service.bucket.kv, settings.passwords)
    sessions = Sessions(service.bucket.kv, accounts)
    gate = AuthServices(accounts, sessions, LoginThrottle())
    subjects = (
        *(routes.blueprint(gate), token_routes.blueprint(gate), user_routes.blueprint(gate)),
        projects.blueprint(places := ProjectDirs(settings.data, service)),
        tables(places),
        usage.blueprint(places),
        logs.blueprint(places),
        manifest.blueprint(DeployedManifest(service.history)),
        state.blueprint(serving, places, door_stats()),
        gc.blueprint(service.collect_garbage),
        deployments.blueprint(service, settings.url_of),
    )
    return create_app(AnyOf(local, sessions), subjects)
