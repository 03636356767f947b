"""A worker process, which inherits its channel and sockets as descriptors.

The pool decides what it serves and when it stops. It exits when the channel closes.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence

from engine.bucket.blobs import FolderBlobs
from engine.deploy.package_store import unpacker
from engine.deploy.serving import DoorUsage, ServingTable, Tenants, VersionFactory
from engine.door import Door, DoorStorage
from engine.event_loop import run
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.client_address import behind_proxies
from engine.gateway.console import at_domain, forwarder
from engine.gateway.domain_proof import with_proof
from engine.http.connection_limits import ConnectionLimiter
from engine.http.exchange import Handler
from engine.http.server import serve
from engine.http.tls import CertificateError, Tls
from engine.log_forwarding import LogForwarder
from engine.measurement import MeasurementBatch
from engine.metrics.families import PoolState
from engine.quota import Quotas
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record
from engine.timeline.recording import Recording
from engine.wasm.execution.runner import Runner
from engine.workers import protocol

BATCH_SECONDS = 0.05
"""How long records are collected before they are sent."""


def _report(
    channel: protocol.Channel, project: str, timeline: TimelineBus, uses: Callable[[], DoorUsage]
) -> Callable[[], None]:
    """Send the records of a timeline to the pool in batches; return what sends the last one."""
    waiting: list[Record | Recording | MeasurementBatch] = []

    def report(record: Record | Recording | MeasurementBatch) -> None:
        if not waiting:
            asyncio.get_running_loop().call_later(BATCH_SECONDS, flush)
        waiting.append(record)

    def flush() -> None:
        if waiting:
            channel.send("records", project, waiting, DoorUsage(uses()))
            uses().clear()
            waiting.clear()

    timeline.subscribe(report)
    timeline.recordings.subscribe(report)
    timeline.measurements.subscribe(report)
    return flush


def _gateway(config: protocol.WorkerConfig, site: ServingTable, tenants: Tenants, runner: Runner) -> Handler:
    settings = GatewaySettings(config.dev, config.max_body, config.dev, config.scheme)
    gateway: Handler = Gateway(
        lambda: site.routes, tenants.timeline, settings, runner.quotas, tenants.open_doors
    )
    if config.console is not None:
        gateway = at_domain(forwarder(*config.console), gateway, config.domain, config.scheme)
    return with_proof(gateway, config.proof_key) if config.proof_key else gateway


async def serve_worker(end: socket.socket, sockets: list[socket.socket], doors: Sequence[Door]) -> None:
    """Serve what the pool publishes until the other end of the channel closes or SIGTERM arrives."""
    channel = await protocol.Channel.open(end)
    if (first := await channel.receive()) is None:
        return
    config: protocol.WorkerConfig = first[1]
    stop, flushes = asyncio.Event(), list[Callable[[], None]]()
    runner = Runner(config.cache, memory=config.memory, quotas=Quotas(config.processes))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    LogForwarder(lambda level, text: channel.send("warn", text)).install()

    def report_records(project: str, timeline: TimelineBus) -> None:
        flushes.append(_report(channel, project, timeline, lambda: tenants.uses(project)))

    blobs = FolderBlobs(config.bucket or config.data)
    storage = DoorStorage(blobs, config.door_secret)
    tenants = Tenants(doors, config.folder, report_records, storage, lambda name: channel.send("jobs", name))
    unpack = unpacker(blobs, config.bucket / "unpacked") if config.bucket else None
    versions = VersionFactory(runner, config.mode, lambda line: None, tenants.doors, unpack=unpack)
    site = ServingTable(versions, config.domain, front=not config.multi_project)
    gateway = _gateway(config, site, tenants, runner)
    serving: asyncio.Task[None] | None = None
    tls: Tls | None = None
    stopping = asyncio.create_task(stop.wait())
    try:
        while True:
            receiving = asyncio.create_task(channel.receive())
            await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                receiving.cancel()
                break
            match receiving.result():
                case None:
                    runner.stop_all()
                    break
                case ("report",):
                    channel.send("reply", PoolState(runner.pool.running(), runner.pool.queued()))
                case "certify", certificates:
                    tls = tls or Tls()
                    try:
                        tls.use(certificates)
                    except CertificateError as error:  # The files have changed again.
                        channel.send("warn", error.text)
                case "publish", publication:
                    name = publication.project.name
                    tenants.reopen(name, publication.removal)
                    ready = await site.prepare(publication, lenient=True)
                    site.activate(ready, replace_all=not config.multi_project)
                    if publication.removed:
                        runner.stop_all(name)
                        await tenants.remove(name)
                    channel.send("reply", None)
                case ("serve",) if serving is None:
                    handler = behind_proxies(gateway, config.trusted_proxies)
                    context = tls.context if tls is not None else None
                    limiter = ConnectionLimiter(config.per_address)
                    public = serve(
                        handler, sockets, stop=stop, grace=config.grace, tls=context, limiter=limiter
                    )
                    serving = asyncio.create_task(public)
    finally:
        stop.set()
        if serving is not None:
            await serving
        await runner.aclose()
        await tenants.aclose()
        for flush in flushes:
            flush()
        await channel.drain()
        channel.close()


def main(descriptors: Sequence[str], doors: Sequence[Door]) -> None:
    """Serve with the inherited descriptors of the channel and the sockets."""
    for number in (signal.SIGINT, signal.SIGHUP):  # A terminal sends them to all its processes.
        signal.signal(number, signal.SIG_IGN)
    channel, *sockets = [socket.socket(fileno=int(each)) for each in descriptors]
    for listener in sockets:
        listener.setblocking(False)
    run(serve_worker(channel, sockets, doors))
