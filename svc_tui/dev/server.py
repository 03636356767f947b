"""Development server: builds, watcher, gateway, Doors, timeline and control API of one project.

`svc dev` and the Console run it. It prints nothing and reports to a `Reporter`. Migrations are applied at
its start, and when a file is saved. A broken migration, or one that was edited after it was applied, is
reported; the others are applied and everything else serves.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from doors.files.store import FileStore
from doors.tables.migrations import MIGRATIONS_FOLDER, migrate
from doors.tables.project_database import ProjectDatabase
from doors.tables.replication.journal import DAY_NS, DAYS, JOURNAL, trim_days
from engine.bucket.blobs import Blobs, FolderBlobs
from engine.bucket.folder import Database
from engine.bucket.layout import BLOBS
from engine.control.discovery import ControlEndpoint, find_endpoint
from engine.deploy.gc import GRACE_NS, remove_unused
from engine.deploy.serving import Doors, ServingTable, VersionFactory
from engine.dev.env_file import ENV_FILE, development_values
from engine.dev.project import BuildFinished, DevProject
from engine.dev.watch import SourceListener, Watcher
from engine.door import DoorStorage
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.replay import Replayer
from engine.grant import Grant
from engine.http.exchange import MAX_BODY
from engine.http.server import serve
from engine.jobs.runner import JobRunner
from engine.lane import BuildFailed, BuildMode
from engine.manifest.load import load, warnings
from engine.manifest.model import Project
from engine.schedules.scheduler import Scheduler
from engine.timeline.bus import TimelineBus
from engine.timeline.database import timeline_path
from engine.timeline.rates import RateMeter
from engine.timeline.record import BUILT, PlatformRecord
from engine.timeline.recorder import TimelineRecorder
from engine.usage.store import UsageRecorder, usage_path
from engine.wasm.execution.background import BackgroundShare
from engine.wasm.execution.memory_budget import default_budget
from engine.wasm.execution.runner import Runner
from engine.workers.pool import WorkerPool
from engine.workers.protocol import WorkerConfig
from svc_tui import composition
from svc_tui.terminal.units import duration

if TYPE_CHECKING:
    from quart import Blueprint

SCHEDULES_FILE = "schedules.db"
QUIET_SECONDS = 0.05
"""A file is complete once nothing in the folder has changed for this long."""


class Reporter(Protocol):
    """Receives events outside of requests, on the loop that the project runs on."""

    def error(self, error: SvcError) -> None:
        """Report a broken migration or manifest; the tables or the resources stay as they were."""

    def warn(self, error: SvcError) -> None:
        """Report what works in part: a migration that is not applied, a folder that is not watched."""

    def note(self, text: str) -> None:
        """Report an applied migration, or another event."""

    def progress(self, text: str) -> None:
        """Report a step that takes longer than a moment."""

    def built(self, event: BuildFinished) -> None:
        """Report a finished build."""


class MigrationListener:
    """Applies the new migrations of a project; `data` is the folder of the project's data."""

    def __init__(self, root: Path, data: Path, reporter: Reporter) -> None:
        self._root = root
        self._data = data
        self._reporter = reporter
        self._changed = False
        self._applying: asyncio.Task[None] | None = None

    async def __call__(self, paths: set[Path]) -> None:
        """Handle a batch of changed paths: apply migrations in the background if theirs are among them."""
        folder = self._root / MIGRATIONS_FOLDER
        if not any(folder in (path, path.parent) for path in paths):
            return
        self._changed = True
        if self._applying is None or self._applying.done():
            self._applying = asyncio.create_task(self._apply_changed())

    async def _apply_changed(self) -> None:
        while self._changed:
            while self._changed:
                self._changed = False
                await asyncio.sleep(QUIET_SECONDS)
            await self.apply()

    async def apply(self) -> None:
        """Apply the migrations that are new."""
        try:
            applied = await asyncio.to_thread(migrate, self._root, self._data, self._reporter.warn)
        except SvcError as error:
            self._reporter.error(error)
            self._reporter.note("the tables are unchanged")
            return
        for name in applied:
            self._reporter.note(f"{name} applied")

    async def aclose(self) -> None:
        if self._applying is not None:
            await self._applying


DOMAIN = "localhost"
GRACE_SECONDS = 1.0
FIRST_BUILD_SECONDS = 1.0
"""How long the control API waits for the first build."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a development server.

    `sockets` has the bound sockets of each serving process; `max_body` is the request body limit in bytes.
    With `schedules`, those of the project run by themselves.
    `home` is the folder that has the project's data in its `.svc` (default: the project).
    """

    sockets: list[list[socket.socket]]
    cache: Path
    mode: BuildMode
    max_body: int = MAX_BODY
    home: Path | None = None
    _: KW_ONLY
    schedules: bool = False

    @property
    def port(self) -> int:
        return int(self.sockets[0][0].getsockname()[1])


@dataclass(frozen=True, slots=True)
class DevServer:
    """A running development server. `ended` is done when it stops, for any reason.

    `presence` is the endpoint of its control API, set once the web framework is loaded.
    """

    dev: DevProject
    presence: "asyncio.Future[ControlEndpoint]"
    ended: "asyncio.Future[Any]"


@asynccontextmanager
async def run_dev(
    project: Project, settings: Settings, timeline: TimelineBus, reporter: Reporter, stop: asyncio.Event
) -> AsyncIterator[DevServer]:
    """Serve a project until the context is left or `stop` is set; leaving sets it. Builds have started."""
    loop = asyncio.get_running_loop()
    home = settings.home or project.root
    data = home / DATA_DIR
    async with AsyncExitStack() as stack:
        recorders = (
            TimelineRecorder(timeline_path(home), timeline, reporter.warn),
            UsageRecorder(usage_path(home), timeline, reporter.warn),
        )
        for recorder in recorders:
            stack.callback(recorder.close)

        watcher = Watcher(project.root, reporter.warn)

        first_built = asyncio.Event()

        def on_built(event: BuildFinished) -> None:
            first_built.set()
            reporter.built(event)
            if interval := dev.build_interval(event.resource):
                watcher.include(dev.inputs(event.resource), interval.start_ns)
            recorders[0](_record(event))  # not by the timeline: its subscribers know it from the reporter

        other = find_endpoint(data)
        if other is not None and other.is_running and other.pid != os.getpid():
            reporter.note(f"another svc dev (process {other.pid}) serves this project, with the same tables")
        migrating = MigrationListener(project.root, data, reporter)
        await asyncio.to_thread(trim_days, [data / JOURNAL])
        await migrating.apply()
        storage = DoorStorage(FolderBlobs(data), secrets.token_bytes(32))
        await _collect_blobs(data, storage.blobs)

        def wake(name: str) -> None:
            jobs.wake(name)

        opened = Doors(composition.doors(), project.name, data, timeline, storage, on_work=wake)
        stack.push_async_callback(opened.aclose)
        runner = Runner(settings.cache)
        stack.push_async_callback(runner.aclose)
        workers: WorkerPool | None = None
        if len(settings.sockets) > 1:
            workers = _worker_pool(settings, data, timeline, opened, reporter, storage.secret, wake)
        versions = VersionFactory(runner, settings.mode, reporter.progress, lambda _: opened)
        table = ServingTable(versions, DOMAIN, front=True)
        registered = composition.lanes()
        for lane in registered.values():
            stack.push_async_callback(lane.aclose)
        dev = DevProject(
            project,
            table,
            lanes=registered,
            cache=settings.cache,
            mode=settings.mode,
            environ=os.environ,
            secrets=lambda: development_values(project.root, os.environ),
            report=reporter.progress,
            on_built=on_built,
            forward=workers.publish if workers else None,
        )
        await dev.start()
        rates = RateMeter(lambda: dev.project)
        timeline.subscribe(rates)

        def projects() -> dict[str, Project]:
            return {dev.project.name: dev.project}

        limits = GatewaySettings(dev=True, max_body=settings.max_body, record=True)
        gateway = Gateway(lambda: table.routes, lambda _: timeline, limits, doors_of=lambda _: opened.open)

        @cache
        def cells() -> Database:
            data.mkdir(parents=True, exist_ok=True)
            return Database(data / SCHEDULES_FILE)

        async def close_cells() -> None:
            if cells.cache_info().currsize:
                await cells().aclose()

        stack.push_async_callback(close_cells)
        share = BackgroundShare(runner.pool, runner.quotas)
        pid = str(os.getpid())
        scheduler = Scheduler(cells, projects, gateway, lambda _: timeline, node=pid, turn=share.run)
        stack.push_async_callback(scheduler.aclose)
        node = pid if other is not None and other.is_running else "dev"
        jobs = JobRunner(projects, lambda _: opened.jobs, gateway, lambda _: timeline, share, node=node)
        stack.push_async_callback(jobs.aclose)
        replayer = Replayer(gateway, timeline)
        control = partial(_blueprints, dev, data, settings.port, rates, opened, replayer, scheduler, jobs)
        presence: asyncio.Future[ControlEndpoint] = loop.create_future()
        controlling = loop.create_task(_control(data, control, stop, presence, first_built))
        stack.push_async_callback(asyncio.gather, controlling)
        serving = loop.create_task(
            workers.run(stop)
            if workers
            else serve(gateway, settings.sockets[0], stop=stop, grace=GRACE_SECONDS)
        )
        stack.push_async_callback(asyncio.gather, serving)
        watcher.subscribe(SourceListener(dev, watcher.ignored, load, reporter.error, reporter.note))
        watcher.subscribe(migrating)
        stack.push_async_callback(migrating.aclose)
        watching = loop.create_task(watcher.run(stop))
        stack.push_async_callback(asyncio.gather, watching)
        stopped = loop.create_task(asyncio.wait([watching, serving], return_when=asyncio.FIRST_COMPLETED))
        stack.push_async_callback(dev.aclose)
        stack.callback(runner.stop_all)
        stack.push_async_callback(scheduler.stop, 0)
        stack.push_async_callback(jobs.stop, 0)
        stack.callback(first_built.set)
        stack.callback(stop.set)
        _warn_of_manifest(dev, reporter, recorders[0])
        await watcher.ready.wait()
        if (tables := project.root / MIGRATIONS_FOLDER).is_dir():
            watcher.include([tables / "*.sql"], 0)  # they may be ignored, or linked from outside
        dev.rebuild(set(project.resources))
        jobs.start()
        if settings.schedules:
            scheduler.start()
        yield DevServer(dev, presence, stopped)


async def _collect_blobs(data: Path, blobs: Blobs) -> None:
    """Remove the bytes of files that neither the project nor the history of its tables has."""
    now = time.time_ns()
    if (data / BLOBS).exists():
        with suppress(SvcError):  # Requests report a corrupt database.
            store = FileStore(ProjectDatabase(data), blobs)
            needed = await store.referenced((now - DAYS * DAY_NS) // 10**6)
            await remove_unused(blobs, needed, now - GRACE_NS)
            await blobs.delete_uploads(now - GRACE_NS)


def _worker_pool(
    settings: Settings,
    data: Path,
    timeline: TimelineBus,
    opened: Doors,
    reporter: Reporter,
    door_secret: bytes,
    wake: Callable[[str], None],
) -> WorkerPool:
    config = WorkerConfig(
        multi_project=False,
        data=data,
        cache=settings.cache,
        mode=settings.mode,
        domain=DOMAIN,
        dev=True,
        grace=GRACE_SECONDS,
        max_body=settings.max_body,
        memory=default_budget() // len(settings.sockets),
        door_secret=door_secret,
    )
    return WorkerPool(
        sockets=settings.sockets,
        config=config,
        timeline_of=lambda _: timeline,
        uses_of=lambda _: opened.uses,
        on_work=wake,
        warn=lambda text: reporter.warn(SvcError(text)),
        program="svc_tui.worker",
    )


def _blueprints(
    dev: DevProject,
    data: Path,
    port: int,
    rates: RateMeter,
    opened: Doors,
    replayer: Replayer,
    scheduler: Scheduler,
    runner: JobRunner,
) -> "tuple[Blueprint, ...]":
    """Return the routes of the control API. Their web framework takes half a second to load."""
    from engine.control.projects import SingleProject
    from engine.control.routes import jobs, manifest, requests, state

    name, doors = dev.project.name, composition.doors()
    projects = SingleProject(name, data)
    return (
        *composition.project_api(name, data),
        manifest.blueprint(manifest.EditableManifest(dev.project)),
        state.blueprint(state.dev_status(dev, rates, opened.uses, port, scheduler.known), projects, doors),
        jobs.schedule_blueprint(scheduler, lambda asked: dev.project if asked == name else None),
        jobs.blueprint(lambda asked: opened.jobs if asked == name else None, runner.wake),
        requests.blueprint(projects, dev, replayer),
    )


async def _control(
    data: Path,
    blueprints: "Callable[[], tuple[Blueprint, ...]]",
    stop: asyncio.Event,
    presence: "asyncio.Future[ControlEndpoint]",
    first_built: asyncio.Event,
) -> None:
    """Serve the control API beside the project, and publish its endpoint in the data folder.

    To load it takes a fifth of a quick start, so a first build that is quick comes before.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(first_built.wait(), FIRST_BUILD_SECONDS)
    if stop.is_set():
        presence.cancel()
        return
    routes = await asyncio.to_thread(blueprints)
    from engine.control.local_server import serve_local

    try:
        async with serve_local(data, routes, announce=True) as endpoint:
            presence.set_result(endpoint)
            await stop.wait()
    except SvcError as error:
        presence.set_exception(error)


def _warn_of_manifest(dev: DevProject, reporter: Reporter, record: Callable[[PlatformRecord], None]) -> None:
    for warning in warnings(dev.project):
        reporter.warn(SvcError(warning.message, warning.hint))
    for resource in dev.project.resources.values():
        for name in (name for name in resource.secrets if name not in dev.secrets):
            message, command = f"the secret {name} has no value", f"{name}=… svc dev"
            reporter.warn(
                SvcError(
                    f"resource {resource.name}: {message}", f"Write it to {ENV_FILE}, or set it: {command}"
                )
            )
            text, grant = f"{message}; write it to {ENV_FILE}, or set it: {command}", Grant("secret", command)
            record(PlatformRecord(time.time_ns(), resource.name, "WARN", text, grant=grant))


def _record(event: BuildFinished) -> PlatformRecord:
    if event.error is not None:
        error = event.error
        output = error.output_text if isinstance(error, BuildFailed) else ""
        exact = isinstance(error, BuildFailed) and error.diagnostics
        text = output if exact else f"did not build: {error.message}\n{output}".rstrip("\n")
        return PlatformRecord(time.time_ns(), event.resource, "ERROR", text)
    text = f"{BUILT} {duration(int(event.seconds * 1e9))}"
    return PlatformRecord(time.time_ns(), event.resource, "INFO", text)
