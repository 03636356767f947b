"""A service: its storage, what its projects use, the control API, the Console, and their sockets."""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from quart import request

from doors.files.api import blueprint as files
from doors.files.store import FileStore
from doors.tables.api.routes import blueprint as tables
from doors.tables.project_database import ProjectDatabase
from engine.bucket import layout
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket, BucketInUse
from engine.cancellation import cancel
from engine.certificates.manager import (
    CertificateManager,
    CertificateStore,
    challenges_and_redirects,
    utc,
    validity,
)
from engine.control import projects
from engine.control.access import AnyOf, StaticToken
from engine.control.app import create_app
from engine.control.auth import routes
from engine.control.auth.accounts import AccountError, Accounts
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import Sessions
from engine.control.discovery import ControlEndpoint, publish_endpoint, remove_endpoint
from engine.control.projects import unknown_project
from engine.control.routes import deployments, domains, fleet, jobs, logs, manifest, operation, state, usage
from engine.control.routes.manifest import DeployedManifest
from engine.errors import SvcError
from engine.files.atomic import file_stamps
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.errors import WorkersRefused
from engine.fleet.fleet import Fleet
from engine.gateway.client_address import behind_proxies
from engine.gateway.console import at_domain, below_root, receiver
from engine.gateway.domain_proof import with_proof
from engine.gateway.problem import send_problem
from engine.http.asgi import asgi_handler
from engine.http.connection_limits import ConnectionLimiter
from engine.http.exchange import Exchange, Handler
from engine.http.server import serve
from engine.http.sockets import authority, bind, listen
from engine.http.tls import Certificate, CertificateError, CertificateSet, Tls
from engine.manifest.schema import is_name
from engine.quota import NO_QUOTA
from engine.service.deployer import Deployer
from engine.service.secrets import SecretsKey
from engine.timeline.record import PlatformRecord
from svc_tui import version
from svc_tui.backup.shipper import Backup
from svc_tui.backup.shipper import blueprint as restoring
from svc_tui.backup.store import BackupError, BackupStore
from svc_tui.composition import doors
from svc_tui.console.web.hosted import HostedConsole
from svc_tui.console.web.pages import IDLE_SECONDS, Pages
from svc_tui.serve.runtime import Runtime, ServiceSettings, open_runtime, project_dir
from svc_tui.serve.storage import check_replicable, copy_storage
from svc_tui.terminal.units import plural

_OF_RUNNING = ("operation.test", "certificate.", "domains.check", "restore.")
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
            usage.quota_blueprint(deployer),
            restoring(dirs, backup),
            domains.blueprint(names),
            domains.certificate_blueprint(names),
            jobs.schedule_blueprint(runtime.scheduler, runtime.serving.project),
            jobs.blueprint(runtime.jobs_of, runtime.jobs.wake),
            operation.gc_blueprint(deployer.collect_garbage),
            fleet.blueprint(node, peers.tables, peers.repair),
            deployments.blueprint(deployer, settings.url_of),
            operation.blueprint(runtime.monitor, runtime.meter, runtime.state),
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


CHECK_SECONDS = 5.0
"""How often files are checked for changes."""
LOCK_SECONDS = 5.0
"""How long a start waits for another process to release the data directory."""
_T = TypeVar("_T")


@contextlib.asynccontextmanager
async def certified(
    settings: ServiceSettings, runtime: Runtime, bucket: Bucket, node: Fleet, tls: Tls | None
) -> AsyncIterator[CertificateManager | None]:
    """Replace the certificates of `tls` and of all workers by new ones; yields what obtains them."""

    def use(certificates: CertificateSet) -> None:
        assert tls is not None
        tls.use(certificates)
        runtime.certificates.used = certificates
        if runtime.workers is not None:
            runtime.workers.certify(certificates)
        if (end := validity(certificates.default.chain)[1]) <= time.time():
            settings.log(
                "warning", f"the certificate of the service expired at {utc(end)}: clients refuse it"
            )

    def report(project: str, text: str) -> None:
        settings.log("error", text)
        runtime.tenants.timeline(project).append(PlatformRecord(time.time_ns(), "", "ERROR", text))

    manager: CertificateManager | None = None
    if settings.certificate is not None:
        use(CertificateSet(settings.certificate.load()))
        work = _follow_files(settings.certificate, use, partial(settings.log, "error"))
    elif settings.acme is not None:
        manager = CertificateManager(
            settings.acme,
            CertificateStore(bucket.kv, SecretsKey.open(settings.data)),
            domain=settings.domain,
            hosts=runtime.serving.public_hosts,
            use=use,
            report=report,
            alert=partial(runtime.monitor.report, "certificate"),
            node=node.node.node if node.node is not None else "",
        )
        await manager.start()
        runtime.on_activated = manager.activated
        runtime.certificates.manager = manager
        work = manager.run()
    else:
        yield None
        return
    task = asyncio.create_task(work)
    try:
        yield manager
    finally:
        runtime.on_activated = None
        await cancel([task])


async def _follow_files(
    certificate: Certificate, use: Callable[[CertificateSet], None], report: Callable[[str], None]
) -> None:
    """Load the files of a certificate again after each change; report files that cannot be used."""
    loaded = file_stamps(certificate.chain, certificate.key)
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if (state := file_stamps(certificate.chain, certificate.key)) == loaded:
            continue
        loaded = state
        try:
            use(CertificateSet(certificate.load()))
        except CertificateError as error:
            report(f"{error.message}; svc serves with the certificate that it loaded before ({error.hint})")


_LOST_COMMITS = (
    "the write-ahead log of the service's records was damaged: {} committed transactions after the damage are"
    " lost, so deployments, users, tokens, secrets and quotas may be older ones; the file is {}. Check the"
    " disk, and compare with a backup"
)
"""Message for a number of transactions and a file."""


@contextlib.asynccontextmanager
async def run_service(settings: ServiceSettings, stop: asyncio.Event) -> AsyncIterator[asyncio.Future[Any]]:
    """Serve live deployments and accept deploys until `stop` is set; yields a future of the servers.

    They also end when the service is to become a fleet: then the end of the context copies its storage, and
    the next start serves the fleet. Raises `SvcError` if the data directory cannot be used.
    """
    tls = Tls() if settings.secure else None
    async with (
        _open(settings, stop, tls) as (bucket, node),
        _backup(settings, bucket, node) as backup,
        open_runtime(settings, bucket, node) as runtime,
    ):
        try:
            code = await Accounts(bucket.kv).new_claim_code()
        except AccountError as error:
            raise AccountError(f"{error.message}: {settings.data / layout.CONTROL}", error.hint) from error
        if code is not None:
            settings.log("info", f"this service has no owner yet; claim it with the code {code}")
        if backup is not None:
            backup.alert = partial(runtime.monitor.report, "backup")
            backup.log = runtime.peers.log
            runtime.removed.subscribe(backup.remove)
        with contextlib.closing(Control(settings, runtime, bucket, node, backup)) as control:
            await node.start(bucket, partial(_check_movable, settings))
            async with (
                certified(settings, runtime, bucket, node, tls) as certificates,
                _serving(settings, runtime, control, node, stop, tls, certificates) as servers,
            ):
                yield servers


async def _check_movable(settings: ServiceSettings) -> None:
    """Raise `SvcError` if the storage cannot move to a fleet."""
    if settings.backup:
        raise BackupError(
            "a service with --backup cannot become a fleet yet",
            "Start it without --backup first, and pass --backup with another URL to the nodes of the fleet.",
        )
    await check_replicable(settings.data)


@contextlib.asynccontextmanager
async def _backup(settings: ServiceSettings, bucket: Bucket, node: Fleet) -> AsyncIterator[Backup | None]:
    """Back up to an object store within the context, if the service is to. Raises `SvcError`."""
    if not settings.backup:
        yield None
        return
    key = SecretsKey.open(settings.data)
    store = await asyncio.to_thread(partial(BackupStore, create=True), settings.backup, key)
    fleet = (node.require_node().fleet, bucket.fleet) if isinstance(bucket, JetStreamBucket) else None
    backup = Backup(store, settings.data, bucket, settings.log, days=settings.log_days, fleet=fleet)
    async with backup.running():
        yield backup


@contextlib.asynccontextmanager
async def _serving(
    settings: ServiceSettings,
    runtime: Runtime,
    control: Control,
    node: Fleet,
    stop: asyncio.Event,
    tls: Tls | None,
    certificates: CertificateManager | None,
) -> AsyncIterator[asyncio.Future[Any]]:
    """Serve on all sockets until `stop` is set or the context is left; yields a future of the servers."""

    async def until_drained(handler: Handler) -> None:
        await _serve_tls(settings, handler, settings.public[0], node.draining, tls)
        node.drained.set()

    ending = asyncio.Event()
    for sock in chain(*settings.public, settings.control, settings.plain):
        listen(sock)
    publish_endpoint(settings.data, control.endpoint)
    internal = partial(serve, stop=ending, grace=settings.grace)
    servers: list[Awaitable[None]] = [_drain_at_stop(control, node, stop, ending)]
    gateway = with_proof(runtime.gateway, runtime.proof_key)
    api = control.api
    if control.console is not None:
        gateway = at_domain(control.console, gateway, settings.domain, settings.scheme)
        api = below_root(control.console, control.api, settings.scheme)
        if runtime.forwarded:
            servers.append(internal(receiver(control.console, runtime.console_secret), runtime.forwarded))
    if runtime.workers is not None:
        servers.append(runtime.workers.run(ending))
    else:
        servers.append(until_drained(gateway))
    servers.append(_serve_tls(settings, api, settings.control, ending, tls))
    if tls is not None:
        servers.append(internal(control.api, control.local))
    if certificates is not None:
        plain = challenges_and_redirects(certificates.challenge, settings.domain, settings.origin.format)
        plain = with_proof(plain, runtime.proof_key)
        servers.append(_serve_tls(settings, plain, [*settings.plain], ending, None))
    finished = asyncio.gather(*servers)
    try:
        yield finished
    finally:
        ending.set()
        remove_endpoint(settings.data, control.endpoint)
        await finished


async def _serve_tls(
    settings: ServiceSettings,
    handler: Handler,
    sockets: list[socket.socket],
    stop: asyncio.Event,
    tls: Tls | None,
) -> None:
    limiter, context = ConnectionLimiter(settings.per_address), tls.context if tls is not None else None
    handler = behind_proxies(handler, settings.trusted_proxies)
    await serve(handler, sockets, stop=stop, grace=settings.grace, tls=context, limiter=limiter)


async def _drain_at_stop(control: Control, node: Fleet, stop: asyncio.Event, ending: asyncio.Event) -> None:
    """Drain the node when the service stops, or is to become a fleet."""
    events = [asyncio.ensure_future(each.wait()) for each in (stop, ending, node.complete)]
    await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
    await cancel(events)
    ending.set()
    node.draining.set()
    if control.pages is not None:
        await control.pages.close()


async def _once_free(settings: ServiceSettings, opening: Callable[[], _T]) -> _T:
    """Open a folder once commands have released it. Raises `BucketInUse`, and as `opening` does."""
    end = time.monotonic() + (LOCK_SECONDS if settings.serving else 0)
    while True:
        try:
            return opening()
        except BucketInUse:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def _open(
    settings: ServiceSettings, stop: asyncio.Event, tls: Tls | None
) -> AsyncIterator[tuple[Bucket, Fleet]]:
    """Open the bucket and the service's node of a fleet; wait for the fleet. Raises `FleetStopped`.

    If the node is complete at the end, copy the storage of the service to its fleet.
    """
    opener = "svc serve" if settings.serving else "a command for a stopped service"
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(contextlib.ExitStack())
        node = Fleet(settings.data, version(), settings.log, fleet.join_handler, len(settings.public))
        stack.push_async_callback(node.stop_server)
        if settings.join or node.node is not None:
            await _once_free(settings, lambda: lock.enter_context(layout.locked(settings.data, opener)))
            if node.processes > 1:
                raise WorkersRefused(node.processes)
        if settings.join:
            await node.join(settings.join, settings.fleet_listen)
        bucket: Bucket | None = await node.open(stop)
        if bucket is None:
            lock.close()  # The bucket locks the folder itself.
            bucket = opened = await _once_free(settings, partial(FolderBucket, settings.data, opener))
            if opened.lost_commits:
                settings.log("error", _LOST_COMMITS.format(opened.lost_commits, opened.root / layout.CONTROL))
        stack.push_async_callback(bucket.aclose)
        stack.push_async_callback(node.stop)
        yield bucket, node
        if node.complete.is_set() and not stop.is_set():
            await _become_fleet(settings, bucket, node, stop, tls)


async def _become_fleet(
    settings: ServiceSettings, bucket: Bucket, node: Fleet, stop: asyncio.Event, tls: Tls | None
) -> None:
    """Copy the storage of the service to its fleet, until `stop` is set. Answer requests with 503 meanwhile.

    After a failure nothing has changed: the service continues to use its folder.
    """
    begin, copied = time.monotonic(), asyncio.Event()

    async def refuse(exchange: Exchange) -> None:
        await send_problem(exchange, "not-ready", "")

    sockets = [sock.dup() for sock in settings.spare]
    refusing = asyncio.ensure_future(
        serve(refuse, sockets, stop=copied, grace=1, tls=tls.context if tls is not None else None)
    )
    moving = asyncio.ensure_future(node.move(partial(copy_storage, settings.data, bucket)))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait([moving, stopped], return_when=asyncio.FIRST_COMPLETED)
    await cancel([moving, stopped])
    copied.set()
    await refusing
    try:
        report = moving.result()
    except asyncio.CancelledError:
        return
    except SvcError as error:
        settings.log("error", f"the data was not copied to the fleet: {error.text}")
    else:
        seconds, tables = time.monotonic() - begin, plural(report.tables, "project")
        copied_text = f"{report.values} values, {report.blobs} blobs and the tables of {tables}"
        settings.log("info", f"copied {copied_text} to the fleet in {seconds:.1f} s")
