"""Composition of a service: bucket, engine, Doors, control API and sockets. Run by `svc serve`."""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from engine.bucket import layout
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket
from engine.cancellation import cancel
from engine.control.access import StaticToken
from engine.control.auth.accounts import AccountError, Accounts, claim_code
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.passwords import Passwords
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import Sessions
from engine.control.discovery import ControlEndpoint, publish_endpoint, remove_endpoint
from engine.control.routes import fleet, metrics
from engine.control.routes.state import StatusSource
from engine.control.schemas.memory import MemoryState
from engine.deploy.doors import Tenants
from engine.deploy.history import LIVE
from engine.deploy.serving import ServingTable
from engine.deploy.versions import VersionFactory
from engine.errors import SvcError
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.errors import WorkersRefused
from engine.fleet.fleet import Fleet, share_attempts
from engine.fleet.node import NodeAddress
from engine.fleet.records import ProjectFiles
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.console import at_domain, below_root, receiver
from engine.gateway.problem import send_problem, wants_page
from engine.http.asgi import asgi_handler
from engine.http.connection_limits import PER_ADDRESS, ConnectionLimiter
from engine.http.exchange import MAX_BODY, Exchange, Handler
from engine.http.server import serve
from engine.http.sockets import authority, bind, listen
from engine.http.tls import Certificate
from engine.log_forwarding import LogForwarder
from engine.manifest.collector import Collector
from engine.manifest.model import host_label
from engine.metrics.families import PoolState, ServiceState
from engine.metrics.meter import ServiceMeter
from engine.otlp.exports import Exports
from engine.service.deployer import Deployer
from engine.service.following import follow
from engine.service.gc_schedule import run_gc_daily
from engine.service.loading import START_SECONDS
from engine.service.quotas import KEY_PREFIX as QUOTAS
from engine.service.secrets import KEY_PREFIX as SECRETS
from engine.service.secrets_key import SecretsKey
from engine.timeline import database
from engine.timeline.bus import TimelineBus
from engine.timeline.rates import RateMeter
from engine.timeline.recorder import TimelineRecorder
from engine.usage import store
from engine.usage.recorder import UsageRecorder
from engine.wasm.execution.memory_budget import ResidentSet, default_budget
from engine.wasm.execution.runner import Runner
from engine.workers.pool import WorkerPool
from engine.workers.protocol import WorkerConfig
from svc_tui import version
from svc_tui.composition import doors
from svc_tui.console.web.hosted import HostedConsole
from svc_tui.console.web.pages import IDLE_SECONDS, Pages
from svc_tui.serve.control_api import ProjectDirs, create_control_api, project_dir
from svc_tui.serve.fleet_node import NodeOfFleet
from svc_tui.serve.migrations import migrate
from svc_tui.serve.storage import check_replicable, copy_storage
from svc_tui.terminal.units import plural

OWN_MEMORY_SHARE = 8
"""One eighth of the memory budget is for the process that supervises workers."""

QUIET_SECONDS = 2.0
"""After this time, the log says why the service does not serve yet."""
_COMPILING = (
    "the live deployments are compiled before this service serves, as at the first start on a machine; after"
    f" {START_SECONDS:.0f} s it serves, and requests of those that are not ready wait"
)

_LOST_COMMITS = (
    "the write-ahead log of the service's records was damaged: {} committed transactions after the damage are"
    " lost, so deployments, users, tokens, secrets and quotas may be older ones; the file is {}. Check the"
    " disk, and compare with a backup"
)
"""Message for a number of transactions and a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How to serve. `public` has a list of bound sockets for each process, which may listen or not.

    `grace` is in seconds. `origin` is the scheme and port of public URLs: `https://{}`, `http://{}:8080`.
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
    memory: int = 0
    """Memory budget of all processes in bytes, 0 for the default."""
    spare: Sequence[socket.socket] = ()
    """Duplicates of the sockets. Requests there get 503 while the service becomes a fleet."""
    join: str = ""
    """Token of a fleet to join."""
    fleet_listen: NodeAddress | None = None
    """Address of this node in the fleet it joins (default: this machine's towards the fleet)."""
    otlp: Collector | None = None
    """OpenTelemetry collector that gets the records and metrics of all projects."""
    console: bool = True
    """Whether to serve the Console to browsers."""
    passwords: Passwords = field(default_factory=Passwords)
    """Password hashing and its cost."""

    @property
    def scheme(self) -> str:
        """Scheme of a TLS-terminating proxy, else empty."""
        return "https" if self.proxied else ""

    def memory_shares(self) -> tuple[int, int]:
        """Return the memory budgets of this process and of each worker, in bytes.

        With workers, this process runs guests for health checks only.
        """
        total, workers = self.memory or default_budget(), len(self.public)
        own = total // OWN_MEMORY_SHARE if workers > 1 else total
        return own, (total - own) // workers

    @property
    def address(self) -> str:
        """Public URL of the service itself."""
        return self.origin.format(self.domain)

    def url_of(self, project: str, resource: str = "") -> str:
        """Return the public URL of a resource, or of the project without one."""
        return self.origin.format(f"{host_label(project, resource)}.{self.domain}")


@contextlib.asynccontextmanager
async def run_service(settings: ServiceSettings, stop: asyncio.Event) -> AsyncIterator[asyncio.Future[Any]]:
    """Serve live deployments and accept deploys until `stop` is set; yields a future of the servers.

    They also end when the service is to become a fleet: then the end of the context copies its storage, and
    the next start serves the fleet. Raises `SvcError` if the data directory cannot be used.
    """
    ending = asyncio.Event()
    recorders: list[TimelineRecorder | UsageRecorder] = []
    rates: dict[str, RateMeter] = {}
    meter = ServiceMeter()

    def warn(error: SvcError) -> None:
        settings.log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)

    def record(project: str, timeline: TimelineBus) -> None:
        folder = project_dir(settings.data, project)
        publisher = peers.records.publisher(project) if peers.records is not None and project else None
        path, usage_path = folder / database.TIMELINE_FILE, folder / store.USAGE_FILE
        recorder = TimelineRecorder(path, timeline, warn, publisher=publisher)
        publish = publisher.publish_usage if publisher is not None else None
        usage_recorder = UsageRecorder(usage_path, timeline, warn, publish=publish)
        recorders.extend((recorder, usage_recorder))
        if publisher is not None:
            publisher.follow(ProjectFiles(path, usage_path, timeline, recorder, usage_recorder))
        rates[project] = RateMeter(lambda: serving.project(project))
        timeline.subscribe(rates[project])
        timeline.subscribe(meter.follower(project))
        timeline.on_measurements(meter.measurer(project))
        exports.follow(project, timeline)

    def close_recorders() -> None:
        for recorder in recorders:
            recorder.close()

    # Everything is closed in the reverse order of its registration.
    async with contextlib.AsyncExitStack() as stack:
        forwarder = LogForwarder(settings.log)
        stack.callback(forwarder.uninstall)
        bucket, node = await stack.enter_async_context(_open(settings, stop))
        peers = NodeOfFleet(settings.data)
        stack.push_async_callback(peers.aclose)
        stack.callback(close_recorders)
        exports = Exports(
            settings.otlp, meter, lambda: service_state(), lambda name: serving.collector(name), settings.log
        )
        stack.push_async_callback(exports.aclose)
        tenants = Tenants(doors(), lambda project: project_dir(settings.data, project), record)
        stack.push_async_callback(tenants.aclose)
        runner = Runner(settings.data / "cache", memory=settings.memory_shares()[0])
        stack.push_async_callback(runner.aclose)
        versions = VersionFactory(runner, "deploy", lambda line: None, tenants.doors)
        serving = ServingTable(versions, settings.domain, front=False)

        def on_activate(project: str) -> None:
            if peers.records is not None:
                tenants.timeline(project)  # It gets the records of other nodes before its own first one.
            exports.refresh(project)

        serving.on_activate = on_activate
        # Workers forward requests for the Console, whose pages and processes belong to this process.
        forwarded = bind("127.0.0.1", 0) if settings.console and len(settings.public) > 1 else []
        for sock in forwarded:
            stack.callback(sock.close)
        console_at = (authority(forwarded[0]), secrets.token_urlsafe(32)) if forwarded else None
        workers = _worker_pool(settings, tenants, console_at) if len(settings.public) > 1 else None
        deployer = Deployer(
            bucket,
            unpacked=settings.data / "unpacked",
            cache=settings.data / "cache",
            site=serving,
            tenants=tenants,
            domain=settings.domain,
            key=SecretsKey.open(settings.data),
            publish=workers.publish if workers else None,
            migrate=partial(migrate, partial(project_dir, settings.data)),
        )
        throttle = LoginThrottle()
        following: set[asyncio.Task[None]] = set()
        stack.push_async_callback(cancel, following)
        stack.push_async_callback(node.stop)
        collecting = asyncio.create_task(run_gc_daily(bucket.kv, deployer.collect_garbage, settings.log))
        stack.push_async_callback(cancel, [collecting])
        stack.push_async_callback(deployer.aclose)
        stack.callback(runner.stop_all)
        stack.callback(collecting.cancel)
        stack.callback(ending.set)
        forwarder.install()

        if isinstance(bucket, JetStreamBucket):
            await peers.start(bucket, node)
        loop = asyncio.get_running_loop()
        compiling = loop.call_later(QUIET_SECONDS, settings.log, "info", _COMPILING)
        await deployer.start(warn)
        compiling.cancel()
        try:
            code = await claim_code(bucket)
        except AccountError as error:
            raise AccountError(f"{error.message}: {settings.data / layout.CONTROL}", error.hint) from error
        if code is not None:
            settings.log("info", f"this service has no owner yet; claim it with the code {code}")
        # Local clients connect by address, which the certificate does not name, so they get plain HTTP.
        local = settings.control if settings.certificate is None else bind("127.0.0.1", 0)
        for sock in local:
            stack.callback(sock.close)
        # Its token gives access to readers of the data directory.
        endpoint = ControlEndpoint(f"http://{authority(local[0])}", secrets.token_urlsafe(32), os.getpid())

        def memory() -> MemoryState:
            used = ResidentSet().read() + (workers.resident_bytes() if workers else 0)
            return MemoryState(budget=settings.memory or default_budget(), used=used)

        async def service_state() -> ServiceState:
            own = PoolState(runner.pool.running(), runner.pool.queued())
            pools = [own, *(await workers.pool_states() if workers else ())]
            current = memory()
            return ServiceState(
                pools,
                memory_used=current.used,
                memory_budget=current.budget,
                counters=exports.families(),
            )

        status = StatusSource(
            kind="service",
            project=serving.project,
            status=serving.status,
            rates=rates.get,
            uses=tenants.uses,
            url_of=settings.url_of,
            memory=memory,
            quota=serving.quota,
        )
        accounts = Accounts(deployer.bucket.kv, settings.passwords)
        auth = AuthServices(accounts, Sessions(deployer.bucket.kv, accounts), throttle)
        project_dirs = ProjectDirs(settings.data, deployer)
        if isinstance(bucket, JetStreamBucket):
            follow(following, bucket.kv.watch, (LIVE, SECRETS, QUOTAS), deployer.refresh)
            assert peers.records is not None
            peers.records.catch_up()
            await share_attempts(bucket.connection, bucket.namespace, throttle)
            assert node.presence is not None
            preparation = peers.prepare_everywhere(node.presence, deployer.prepare)
            deployer.ready_elsewhere = preparation.everywhere
        api = asgi_handler(
            create_control_api(
                deployer,
                settings,
                auth,
                project_dirs,
                local=StaticToken(endpoint.token),
                status=status,
                node=node,
                peers=peers,
                metrics=metrics.blueprint(meter, service_state),
            )
        )
        pages = Pages(idle_seconds=IDLE_SECONDS) if settings.console else None

        await node.start(bucket, partial(check_replicable, settings.data))
        for sock in chain(*settings.public, settings.control):
            listen(sock)
        publish_endpoint(settings.data, endpoint)

        async def serve_tls(handler: Handler, sockets: list[socket.socket], stop: asyncio.Event) -> None:
            await serve(
                handler,
                sockets,
                stop=stop,
                grace=settings.grace,
                certificate=settings.certificate,
                limiter=ConnectionLimiter(settings.per_address),
            )

        async def serve_public(gateway: Handler) -> None:
            """Serve until the service stops or the node is drained."""
            await serve_tls(gateway, settings.public[0], node.draining)
            node.drained.set()

        async def drain_at_stop() -> None:
            events = [asyncio.ensure_future(each.wait()) for each in (stop, ending, node.complete)]
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
            await cancel(events)
            ending.set()
            node.draining.set()
            if pages is not None:
                await pages.close()

        gateway_settings = GatewaySettings(max_body=settings.max_body, scheme=settings.scheme)
        gateway: Handler = Gateway(lambda: serving.routes, tenants.timeline, gateway_settings, runner.quotas)
        control, servers = api, []
        if pages is not None:
            hosted = HostedConsole(
                pages, auth, project_dirs.names, api=endpoint.url, address=settings.address
            )
            console = asgi_handler(hosted.application())
            gateway = at_domain(console, gateway, settings.domain, settings.scheme)
            control = below_root(console, api, settings.scheme)
            if console_at is not None:
                receive = receiver(console, console_at[1])
                servers.append(serve(receive, forwarded, stop=ending, grace=settings.grace))
        servers += [
            workers.run(ending) if workers is not None else serve_public(gateway),
            serve_tls(control, settings.control, ending),
            drain_at_stop(),
        ]
        if settings.certificate is not None:
            servers.append(serve(api, local, stop=ending, grace=settings.grace))
        finished = asyncio.gather(*servers)

        async def stop_servers() -> None:
            ending.set()
            remove_endpoint(settings.data, endpoint)
            await finished

        stack.push_async_callback(stop_servers)
        yield finished


@contextlib.asynccontextmanager
async def _open(settings: ServiceSettings, stop: asyncio.Event) -> AsyncIterator[tuple[Bucket, Fleet]]:
    """Open the bucket and the service's node of a fleet; wait for the fleet. Raises `FleetStopped`.

    If the node is complete at the end, copy the storage of the service to its fleet.
    """
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(contextlib.ExitStack())
        node = Fleet(settings.data, version(), settings.log, fleet.join_handler, len(settings.public))
        stack.push_async_callback(node.stop_server)
        if settings.join or node.node is not None:
            lock.enter_context(layout.locked(settings.data, "svc serve"))
            if node.processes > 1:
                raise WorkersRefused(node.processes)
        if settings.join:
            await node.join(settings.join, settings.fleet_listen)
        bucket: Bucket | None = await node.open(stop)
        if bucket is None:
            lock.close()  # The bucket locks the folder itself.
            bucket = opened = FolderBucket(settings.data, "svc serve")
            if opened.lost_commits:
                settings.log("error", _LOST_COMMITS.format(opened.lost_commits, opened.root / layout.CONTROL))
        stack.push_async_callback(bucket.aclose)
        stack.push_async_callback(node.stop)
        yield bucket, node
        if node.complete.is_set() and not stop.is_set():
            await _become_fleet(settings, bucket, node, stop)


async def _become_fleet(settings: ServiceSettings, bucket: Bucket, node: Fleet, stop: asyncio.Event) -> None:
    """Copy the storage of the service to its fleet, until `stop` is set. Answer requests with 503 meanwhile.

    After a failure nothing has changed: the service continues to use its folder.
    """
    begin, copied = time.monotonic(), asyncio.Event()

    async def refuse(exchange: Exchange) -> None:
        await send_problem(exchange, "not-ready", "", html=wants_page(exchange.request.headers), debug=None)

    sockets = [sock.dup() for sock in settings.spare]
    refusing = asyncio.ensure_future(
        serve(refuse, sockets, stop=copied, grace=1, certificate=settings.certificate)
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


def _worker_pool(settings: ServiceSettings, tenants: Tenants, console: tuple[str, str] | None) -> WorkerPool:
    config = WorkerConfig(
        multi_project=True,
        data=settings.data / "projects",
        cache=settings.data / "cache",
        mode="deploy",
        domain=settings.domain,
        dev=False,
        grace=settings.grace,
        certificate=settings.certificate,
        per_address=settings.per_address,
        scheme=settings.scheme,
        max_body=settings.max_body,
        memory=settings.memory_shares()[1],
        processes=len(settings.public),
        console=console,
    )
    return WorkerPool(
        sockets=settings.public,
        config=config,
        timeline_of=tenants.timeline,
        uses_of=tenants.uses,
        warn=lambda text: settings.log("warning", text),
        program="svc_tui.worker",
    )
