"""The parts of a service below its sockets: timelines, Doors, guests, workers, deployments, and its node.

`ServiceSettings` are what `svc serve` is started with.
"""

import asyncio
import secrets
import shutil
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from doors.files.store import FileStore
from doors.tables.api.query import run_with_connection
from doors.tables.migrations import ERROR_PREFIX, MIGRATIONS_FOLDER, Migration, apply, find
from doors.tables.project_database import ProjectDatabase
from doors.tables.replication import entry
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.journal import JOURNAL, trim_days
from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.owner import database_path, open_for_writing
from engine.alerts.alerts import Alert, AlertMonitor, Target
from engine.bucket.protocols import Bucket, Digest, disk_errors
from engine.cancellation import cancel, spawn
from engine.certificates.settings import AcmeSettings
from engine.certificates.state import CertificateStates
from engine.control.auth.accounts import Passwords
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.project_threads import ProjectThreads
from engine.control.routes.state import StatusSource
from engine.control.routes.usage import MemoryState
from engine.deploy.deployment import Deployment
from engine.deploy.gc import GarbageError, GcReport, run_gc_daily
from engine.deploy.package_store import unpacker
from engine.deploy.serving import ServingTable, Tenants, VersionFactory
from engine.door import DoorStorage
from engine.errors import SvcError
from engine.files.atomic import sync_folder
from engine.files.temporary import temporary_folder
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.errors import FleetError
from engine.fleet.fleet import Fleet, share_attempts
from engine.fleet.members import ASK_SECONDS, PREPARE, TABLES, Document, Prepare, Questions, Tables
from engine.fleet.node import NODE_FOLDER, NodeAddress
from engine.fleet.records import RECORDS, USAGE, FleetRecords, ProjectFiles
from engine.fleet.tables_log import TablesLog
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.client_address import Network
from engine.http.connection_limits import PER_ADDRESS
from engine.http.exchange import MAX_BODY
from engine.http.sockets import authority, bind
from engine.http.tls import Certificate
from engine.job_store import JobStore
from engine.jobs.runner import JobRunner
from engine.lane import ignore_progress
from engine.log_forwarding import LogForwarder
from engine.manifest.egress import Collector
from engine.manifest.model import host_label
from engine.manifest.schema import is_name
from engine.metrics.families import PoolState, ServiceMeter, ServiceState
from engine.otlp.exports import Exports
from engine.schedules.scheduler import Scheduler
from engine.service.deployer import START_SECONDS, Deployer, follow
from engine.service.domain_checks import DomainChecks, check_all
from engine.service.secrets import SecretsKey
from engine.timeline.bus import TimelineBus, Topic
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.rates import RateMeter
from engine.timeline.record import Origin, PlatformRecord, format_utc
from engine.timeline.recorder import TimelineRecorder, read_page
from engine.usage.store import USAGE_FILE, UsageRecorder, UsageStore
from engine.wasm.execution.background import BackgroundShare
from engine.wasm.execution.memory_budget import ResidentSet, default_budget
from engine.wasm.execution.runner import Runner
from engine.workers.pool import WorkerPool
from engine.workers.protocol import WorkerConfig
from svc_tui.composition import doors

OWN_MEMORY_SHARE = 8
"""One eighth of the memory budget is for the process that supervises workers."""
SERVICE_DIR = "service"
"""Data folder of the service itself. It cannot collide with projects, which have their own folder."""


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
    acme: AcmeSettings | None = None
    """Authority that certificates are obtained from."""
    plain: Sequence[socket.socket] = ()
    """With `acme`: sockets that answer challenges and redirect to https."""
    grace: float
    log: Callable[[str, str], None]
    """Takes a level and a line for the service's log."""
    per_address: int = PER_ADDRESS
    """Maximum connections per client address in each process, 0 for no limit."""
    proxied: bool = False
    """Whether a reverse proxy terminates TLS."""
    trusted_proxies: tuple[Network, ...] = ()
    """Networks of proxies that report the addresses of their clients."""
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
    region: str = ""
    """Region of this machine, which its records have."""
    notify: Sequence[Target] = ()
    """Receivers of alerts."""
    serving: bool = True
    """False for a command with the folder of a stopped service, whose options it does not know.

    No schedule runs then, no domain is checked, no alert is sent.
    """
    console: bool = True
    """Whether to serve the Console to browsers."""
    backup: str = ""
    """URL of an object store for backups, empty for none."""
    log_days: int = 7
    """Days of the history of tables, and of the moments that a backup can be restored to."""
    passwords: Passwords = field(default_factory=Passwords)
    """Password hashing and its cost."""

    @property
    def secure(self) -> bool:
        return self.certificate is not None or self.acme is not None

    @property
    def scheme(self) -> str:
        """Scheme of a TLS-terminating proxy, else empty."""
        return "https" if self.proxied else ""

    def memory_shares(self) -> tuple[int, int]:
        """Return the memory budgets of this process and of each worker, in bytes.

        With workers, this process runs guests for health checks and schedules only.
        """
        total, workers = self.memory or default_budget(), len(self.public)
        own = total // OWN_MEMORY_SHARE if workers > 1 else total
        return own, (total - own) // workers

    @property
    def address(self) -> str:
        return self.origin.format(self.domain)

    def url_of(self, project: str, resource: str = "") -> str:
        """Return the public URL of a resource, or of the project without one."""
        return self.origin.format(f"{host_label(project, resource)}.{self.domain}")


def project_dir(data: Path, project: str) -> Path:
    return data / "projects" / project if project else data / SERVICE_DIR


REPAIR, REMOVE = "repair", "remove"
REPAIR_SECONDS = 1200.0
"""Longer than a node compares its copy with those of other nodes."""
MAX_WAITING = 512
"""Maximum questions about a project that wait for a thread."""
USAGE_ROWS = 10_000


class NodeOfFleet:
    """Replicas and questions. A service without a fleet has none: it does not call `start`."""

    def __init__(self, data: Path) -> None:
        self.records: FleetRecords | None = None
        self.log: TablesLog | None = None
        self._data = data
        self._stack = AsyncExitStack()

    async def start(self, bucket: JetStreamBucket, fleet: Fleet) -> None:
        """Replicate tables, publish records, ask and answer from now on. Raises `SvcError`."""
        node, presence = fleet.require_node(), fleet.presence
        assert presence is not None
        log = TablesLog(bucket.connection, bucket.namespace, node.fleet, node.node, presence.present)
        await log.create()
        self._replicas = replicas = Replicas(log, self._data / "projects")
        replicas.start()
        self._stack.push_async_callback(replicas.aclose)

        async def tables(question: Document) -> dict[str, Any]:
            """Return how far the copies of a project ("": of all) are behind the log, and what is wrong."""
            project = question["project"]
            folder = project_dir(self._data, project)
            if project and database_path(folder).exists():
                replicas.of(folder)
            opened = {name: each for name, each in replicas.opened.items() if project in ("", name)}
            troubles = [
                {"project": name, "since": format_utc(trouble[0]), "problem": trouble[1]}
                for name, replica in opened.items()
                if (trouble := replica.trouble) is not None
            ]
            lags = [replica.copy.lag_ms for replica in opened.values()]
            return {"lag_ms": max(lags, default=None), "troubles": troubles}

        questions = Questions(bucket.connection, f"{bucket.namespace}.questions", node.node, presence.present)
        self._questions = questions
        questions.answer(TABLES, tables)
        answer_reads(questions, partial(project_dir, self._data))
        questions.answer(REPAIR, replicas.offer)
        await self._stack.enter_async_context(questions.serve())
        self.records = FleetRecords(bucket.connection, bucket.namespace, presence, questions)
        self._stack.push_async_callback(self.records.aclose)
        await self.records.start()
        self.log = log

    def prepare_everywhere(self, prepare: Prepare) -> Prepare:
        """Prepare deployments that other nodes activate from now on; return what asks them to."""
        self._questions.answer(PREPARE, lambda question: prepare(question["project"], question["deployment"]))
        return self._questions.prepare_everywhere

    async def remove(self, project: str) -> None:
        if self.records is not None:
            self.records.remove(project)
            await self._replicas.remove(project)

    def delete_everywhere(
        self, apply: Callable[[str], Awaitable[None]], is_pending: Callable[[str], Awaitable[bool]]
    ) -> Callable[[str], Awaitable[None]]:
        """Return what has the other nodes `apply` the removal of a project, and deletes its log of tables.

        Nodes that do not answer apply it when they follow the bucket again.
        """
        self._questions.answer(REMOVE, lambda question: apply(question["project"]))

        async def delete(project: str) -> None:
            assert self.log is not None
            asking = [self._questions.ask(node, REMOVE, {"project": project}) for node in self.log.others()]
            await asyncio.gather(*asking, return_exceptions=True)
            last = await self.log.last(project)
            if await is_pending(project):
                await self.log.remove(project, last)

        return delete

    async def tables(self, nodes: Collection[str], project: str) -> Tables:
        """See `FindTables`."""
        if self.log is None:
            return Tables()
        asking = [self._questions.ask(node, TABLES, {"project": project}, ASK_SECONDS) for node in nodes]
        answers = await asyncio.gather(self.log.leader(ASK_SECONDS), *asking, return_exceptions=True)
        found = {
            node: answer for node, answer in zip(nodes, answers[1:], strict=True) if isinstance(answer, dict)
        }
        return Tables(answers[0] if isinstance(answers[0], str) else "", found)

    async def repair(self, project: str, node: str, commit: bool) -> list[str]:
        """Return the nodes whose copies of the tables differ from that of a node; `commit`: they take it.

        Raises `SvcError`.
        """
        if self.log is None:
            raise FleetError("this service does not serve a fleet", "Create one with `svc fleet start`.")
        if not await self.log.last(project):
            raise ReplicationError("not-found", f"{project} has no tables in this fleet")
        if node not in (self.log.node, *self.log.others()):
            raise ReplicationError("unavailable", f"the node {node} does not run", "Start it first.")
        question = {"project": project, "commit": commit}
        try:
            return list((await self._questions.ask(node, REPAIR, question, REPAIR_SECONDS))["differing"])
        except SvcError as error:
            message = f"the copy of {node} cannot be taken: {error.message}"
            raise ReplicationError("unavailable", message) from error

    async def aclose(self) -> None:
        """Stop. The tables must be closed."""
        await self._stack.aclose()


def answer_reads(questions: Questions, data_dir: Callable[[str], Path]) -> None:
    """Answer questions about the records and the usage of a project, whose data folder `data_dir` returns.

    Answering raises `SvcError`.
    """
    threads = ProjectThreads("fleet-answers", max_waiting=MAX_WAITING)

    async def read(name: str, page: Callable[[Path, str, Any], Any], question: Document) -> Any:
        if not is_name(project := question["project"]):
            raise SvcError(f'invalid project name "{project[:80]}"')
        file = data_dir(project) / name
        return await threads.of(str(file.parent))(partial(page, file, question["of"], question["after"]))

    questions.answer(RECORDS, partial(read, TIMELINE_FILE, read_page))
    questions.answer(USAGE, partial(read, USAGE_FILE, _read_usage))


def _read_usage(path: Path, node: str, after: Any) -> dict[str, Any]:
    if not path.exists():
        return {"rows": []}
    with closing(UsageStore(path)) as store:
        return {"rows": store.page_of(node, (after[0], after[1]), USAGE_ROWS)}


async def migrate(folder_of: Callable[[str], Path], deployment: Deployment, files: Mapping[str, str]) -> None:
    """Apply a deployment's migrations by file name. `folder_of` returns the data folder of a project.

    Raises `SvcError`.
    """

    def read() -> tuple[Migration, ...]:
        with temporary_folder("svc-migrations-") as folder:
            tables = folder / MIGRATIONS_FOLDER
            tables.mkdir()
            for name, text in files.items():
                (tables / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            return find(folder)

    try:
        if migrations := await asyncio.to_thread(read):
            owned = folder_of(deployment.project)
            origin = entry.Origin("migration", deployment=deployment.id, user=deployment.by)
            opened = open_for_writing(owned, ERROR_PREFIX, origin)
            await run_with_connection(owned, opened, lambda connection: apply(connection, migrations))
    except OSError as error:
        raise SvcError(
            f"cannot apply the migrations of {deployment.project}: {error.strerror}",
            "Check that the service's disk and the disk for temporary files have space.",
        ) from error


REMOVED = "removed"
"""Folder of a data directory for data that is being deleted."""


def _delete_folder(folder: Path, trash: Path) -> None:
    """Delete a folder, which others may still write to. Raises `SvcError`."""
    with disk_errors(folder):
        while folder.exists():
            trash.mkdir(exist_ok=True)
            folder.rename(trash / secrets.token_hex(6))
            sync_folder(folder.parent)
        if trash.exists():
            shutil.rmtree(trash)


QUIET_SECONDS = 2.0
"""After this time, the log says why the service does not serve yet."""
_COMPILING = (
    "the live deployments are compiled before this service serves, as at the first start on a machine; after"
    f" {START_SECONDS:.0f} s it serves, and requests of those that are not ready wait"
)


class Runtime:
    """The parts of a service that its projects use. Create it on the event loop, by `open_runtime`."""

    def __init__(
        self, settings: ServiceSettings, bucket: Bucket, node: Fleet, closing: AsyncExitStack
    ) -> None:
        """`closing` closes each part in the reverse order of their registration. Raises `SvcError`."""
        self._settings, self._bucket, self._node, self._closing = settings, bucket, node, closing
        key, self._rates = SecretsKey.open(settings.data), dict[str, RateMeter]()
        self.on_activated: Callable[[str], None] | None = None
        """Called with the name of each project that was activated while the service serves."""
        self.meter = ServiceMeter()
        self.monitor = AlertMonitor(
            settings.data,
            settings.certificate,
            self.meter,
            memory=self._memory_use,
            absent=self._absent_nodes,
            url_of=lambda project: settings.url_of(project) if project else settings.address,
            targets=settings.notify,
            lost=self._lost,
            warn=partial(settings.log, "warning"),
        )
        self.peers = NodeOfFleet(settings.data)
        closing.push_async_callback(self.peers.aclose)
        self._recorders: dict[str, ExitStack] = {}
        self.removed = Topic[str]()
        """Gets the name of each project that is removed."""
        closing.callback(self._close_recorders)
        self._exports = Exports(
            settings.otlp, self.meter, self.state, lambda name: self.serving.collector(name), settings.log
        )
        closing.push_async_callback(self._exports.aclose)
        self._storage = DoorStorage(bucket.blobs, next(iter(key.derive("svc-doors").values())))
        self.tenants = tenants = Tenants(
            doors(), self.folder, self._record, self._storage, lambda name: self.jobs.wake(name)
        )
        closing.push_async_callback(self.tenants.aclose)
        self.runner = Runner(settings.data / "cache", memory=settings.memory_shares()[0])
        closing.push_async_callback(self.runner.aclose)
        unpack = unpacker(bucket.blobs, settings.data / "unpacked")
        doors_of, report = self.tenants.doors, ignore_progress
        versions = VersionFactory(self.runner, "deploy", report, doors_of, unpack=unpack)
        self.serving = ServingTable(versions, settings.domain, front=False)
        self.serving.on_activate = self._on_activate
        self.certificates = CertificateStates(self.serving.public_hosts, settings.domain)
        processes = len(settings.public)
        # Workers forward requests for the Console, whose pages and processes belong to this process.
        self.forwarded = bind("127.0.0.1", 0) if settings.console and processes > 1 else []
        for sock in self.forwarded:
            closing.callback(sock.close)
        self.console_secret = secrets.token_urlsafe(32)
        self.proof_key = next(iter(key.derive("svc-domain").values()))
        self.workers = self._worker_pool() if processes > 1 else None
        self.deployer = self._create_deployer(key)
        self.domain_checks = DomainChecks(settings.domain, settings.origin, self.proof_key)
        self.throttle, self._following = LoginThrottle(), set[asyncio.Task[None]]()
        closing.push_async_callback(cancel, self._following)
        closing.push_async_callback(node.stop)
        collecting = asyncio.create_task(run_gc_daily(bucket.kv, self._collect, settings.log))
        closing.push_async_callback(cancel, [collecting])
        closing.push_async_callback(self.deployer.aclose)
        limits = GatewaySettings(max_body=settings.max_body, scheme=settings.scheme)
        self.gateway = Gateway(
            lambda: self.serving.routes, tenants.timeline, limits, self.runner.quotas, tenants.open_doors
        )
        self.scheduler, self.jobs = self._runners_without_clients(self.gateway)
        closing.push_async_callback(self.scheduler.aclose)
        closing.push_async_callback(self.jobs.aclose)
        closing.callback(self.runner.stop_all)
        closing.push_async_callback(self.jobs.stop, settings.grace)
        closing.push_async_callback(self.scheduler.stop, settings.grace)
        closing.callback(collecting.cancel)
        closing.push_async_callback(self.monitor.aclose)

    def _create_deployer(self, key: SecretsKey) -> Deployer:
        settings, in_fleet = self._settings, isinstance(self._bucket, JetStreamBucket)
        data = settings.data
        deployer = Deployer(
            self._bucket,
            unpacked=data / "unpacked",
            cache=data / "cache",
            site=self.serving,
            tenants=self.tenants,
            domain=settings.domain,
            key=key,
            publish=self.workers.publish if self.workers else None,
            migrate=partial(migrate, self.folder),
            referenced=self._file_blobs,
            applied_removals=data / NODE_FOLDER / "removals.json" if in_fleet else None,
        )
        deployer.on_deploy = self.monitor.deployed
        deployer.delete_data = self._delete_data
        deployer.on_removed = lambda name, by: settings.log("info", f"{by} removed the project {name}")
        return deployer

    def _runners_without_clients(self, gateway: Gateway) -> tuple[Scheduler, JobRunner]:
        share = BackgroundShare(self.runner.pool, self.runner.quotas)
        name = self._node.node.node if self._node.node is not None else ""
        projects, timeline = self.serving.projects, self.tenants.timeline
        alert = partial(self.monitor.report, "schedule")
        present = self._node.presence.present if self._node.presence is not None else None
        return Scheduler(
            lambda: self._bucket.kv, projects, gateway, timeline, node=name, turn=share.run, alert=alert
        ), JobRunner(projects, self.jobs_of, gateway, timeline, share, node=name, present=present)

    async def _collect(self, *, files_only: bool = False) -> GcReport:
        journals = self._settings.data.glob(f"projects/*/{JOURNAL}")
        await asyncio.to_thread(trim_days, journals, self._settings.log_days)
        return await self.deployer.collect_garbage(files_only=files_only)

    async def _file_blobs(self) -> set[Digest]:
        """Return the blobs of files of all projects, and of those that the history of their tables has.

        Raises `GarbageError` if an index cannot be read.
        """
        since_ms = time.time_ns() // 10**6 - self._settings.log_days * 86_400_000
        names = {live.project for live in await self.deployer.history.all_live(self._warn)}
        names |= {path.parent.parent.name for path in self._settings.data.glob("projects/*/tables/tables.db")}
        digests = set[Digest]()
        for name in names:
            try:
                store = FileStore(ProjectDatabase(self.folder(name)), self._bucket.blobs)
                digests |= await store.referenced(since_ms)
            except SvcError as error:
                unknown = f"nothing was removed: the files of {name} are unknown: "
                public = unknown + error.public_message
                raise GarbageError(unknown + error.message, error.hint, public_message=public) from error
        return digests

    async def start(self) -> None:
        """Load the live deployments. In a fleet, follow the changes of other nodes. Raises `SvcError`."""
        bucket, node, deployer = self._bucket, self._node, self.deployer
        if isinstance(bucket, JetStreamBucket):
            for project in await deployer.removals.unapplied():  # Before other nodes ask for its data.
                await deployer.apply_removal(project)
            await self.peers.start(bucket, node)
            deployer.delete_elsewhere = self.peers.delete_everywhere(
                deployer.apply_removal, deployer.removals.is_pending
            )
        loop = asyncio.get_running_loop()
        compiling = loop.call_later(QUIET_SECONDS, self._settings.log, "info", _COMPILING)
        await deployer.start(self._warn)
        compiling.cancel()
        if isinstance(bucket, JetStreamBucket):
            follow(self._following, bucket.kv.watch, deployer.refresh)
            await share_attempts(bucket.connection, bucket.namespace, self.throttle)
            deployer.ready_elsewhere = self.peers.prepare_everywhere(deployer.prepare)
        if self._settings.serving:
            woken, store = deployer.domains_declared, deployer.domains
            spawn(self._following, check_all(store, self.domain_checks, deployer.reload, woken))
            self.monitor.start()
            self.scheduler.start()
            self.jobs.start()

    def folder(self, project: str) -> Path:
        """Return the data folder of a project; the empty name is the service itself."""
        return project_dir(self._settings.data, project)

    def jobs_of(self, project: str) -> JobStore | None:
        return self.tenants.doors(project).jobs if self.serving.project(project) is not None else None

    def memory(self) -> MemoryState:
        """Return the memory of all processes."""
        used = ResidentSet().read() + (self.workers.resident_bytes() if self.workers else 0)
        return MemoryState(budget=self._settings.memory or default_budget(), used=used)

    def _memory_use(self) -> tuple[int, int]:
        memory = self.memory()
        return memory.used, memory.budget

    async def _absent_nodes(self) -> tuple[Mapping[str, str], bool]:
        """Return the absent nodes of the fleet. The present one with the first id reports them."""
        if self._node.node is None:
            return {}, False
        fleet = await self._node.status()
        absent = {node.id: node.address for node in fleet.nodes if not node.present}
        return absent, fleet.node == min(node.id for node in fleet.nodes if node.present)

    def _lost(self, alert: Alert, reason: str) -> None:
        """Record an alert that was not delivered, in the log and the timeline."""
        text = f"the alert was not delivered ({reason}): {alert.title}: {alert.text}"
        self._settings.log("warning", text)
        self.tenants.timeline(alert.project or "").append(PlatformRecord(time.time_ns(), "", "WARN", text))

    async def state(self) -> ServiceState:
        """Return the state of all processes."""
        own = PoolState(self.runner.pool.running(), self.runner.pool.queued())
        pools = [own, *(await self.workers.pool_states() if self.workers else ())]
        memory = self.memory()
        return ServiceState(
            pools, memory_used=memory.used, memory_budget=memory.budget, counters=self._exports.families()
        )

    def status(self) -> StatusSource:
        return StatusSource(
            kind="service",
            project=self.serving.project,
            status=self.serving.status,
            rates=self._rates.get,
            uses=self.tenants.uses,
            url_of=self._settings.url_of,
            memory=self.memory,
            quota=self.serving.quota,
            domains=self.deployer.domains.known,
            certificate=self.certificates.of,
            schedules=self.scheduler.known,
        )

    def _record(self, project: str, timeline: TimelineBus) -> None:
        """Store the records of a new timeline, count them, and send them to the fleet and to collectors."""
        records = self.peers.records if project else None
        path = self.folder(project) / TIMELINE_FILE
        usage_path = self.folder(project) / USAGE_FILE
        recorder = TimelineRecorder(
            path,
            timeline,
            self._warn,
            publish=partial(records.publish, project) if records is not None else None,
            node=records.node if records is not None else "",
            origin=Origin(region=self._settings.region),
        )
        publish = partial(records.publish_usage, project) if records is not None else None
        usage_recorder = UsageRecorder(usage_path, timeline, self._warn, publish=publish)
        self._recorders[project] = ExitStack()
        self._recorders[project].callback(usage_recorder.close)
        self._recorders[project].callback(recorder.close)
        if records is not None:
            records.follow(project, ProjectFiles(path, usage_path, timeline, recorder, usage_recorder))
        self._rates[project] = RateMeter(partial(self.serving.project, project))
        timeline.subscribe(self._rates[project])
        timeline.subscribe(self.meter.follower(project))
        timeline.measurements.subscribe(self.meter.measurer(project))
        self._exports.follow(project, timeline)

    def _close_recorders(self) -> None:
        for recorders in self._recorders.values():
            recorders.close()

    async def _delete_data(self, project: str) -> None:
        """Close what a project that is not served has open, and delete its folder. Raises `SvcError`."""
        self.runner.stop_all(project)
        self.removed.append(project)
        await self.jobs.remove(project)
        await self.tenants.remove(project)
        self._exports.refresh(project)
        await self.peers.remove(project)
        if (recorders := self._recorders.pop(project, None)) is not None:
            await asyncio.to_thread(recorders.close)
        self._rates.pop(project, None)
        self.meter.remove(project)
        self.monitor.alerts.end_all(project)
        await asyncio.to_thread(_delete_folder, self.folder(project), self._settings.data / REMOVED)

    def _on_activate(self, project: str) -> None:
        if self.peers.records is not None:
            self.tenants.timeline(project)  # It gets the records of other nodes before its own first one.
        self._exports.refresh(project)
        self.jobs.served(project)
        if self.on_activated is not None:
            self.on_activated(project)

    def _warn(self, error: SvcError) -> None:
        self._settings.log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)

    def _worker_pool(self) -> WorkerPool:
        settings = self._settings
        config = WorkerConfig(
            multi_project=True,
            data=settings.data / "projects",
            bucket=settings.data,
            cache=settings.data / "cache",
            mode="deploy",
            domain=settings.domain,
            dev=False,
            grace=settings.grace,
            per_address=settings.per_address,
            scheme=settings.scheme,
            trusted_proxies=settings.trusted_proxies,
            max_body=settings.max_body,
            memory=settings.memory_shares()[1],
            processes=len(settings.public),
            proof_key=self.proof_key,
            door_secret=self._storage.secret,
            console=(authority(self.forwarded[0]), self.console_secret) if self.forwarded else None,
        )
        return WorkerPool(
            sockets=settings.public,
            config=config,
            timeline_of=self.tenants.timeline,
            uses_of=self.tenants.uses,
            on_work=lambda project: self.jobs.wake(project),
            warn=lambda text: settings.log("warning", text),
            program="svc_tui.worker",
        )


@asynccontextmanager
async def open_runtime(settings: ServiceSettings, bucket: Bucket, node: Fleet) -> AsyncIterator[Runtime]:
    """Open the parts of a service, whose live deployments are loaded then. Raises `SvcError`."""
    async with AsyncExitStack() as closing:
        forwarder = LogForwarder(settings.log)
        closing.callback(forwarder.uninstall)
        runtime = Runtime(settings, bucket, node, closing)
        forwarder.install()
        await runtime.start()
        yield runtime
