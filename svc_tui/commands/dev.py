"""`svc dev`: serve the Project in this folder, and rebuild what is saved."""

import asyncio
import importlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from engine.deploy.doors import Doors
from engine.deploy.live import Built, LiveProject, Setting
from engine.errors import SvcError
from engine.gateway.app import Gateway, GatewaySettings
from engine.lane import BuildMode
from engine.listen import allow_connections, bind, bind_each
from engine.manifest.load import find, load, warnings
from engine.manifest.model import Project
from engine.server import serve
from engine.timeline.database import place as timeline_place
from engine.timeline.feed import Timeline
from engine.timeline.record import PlatformRecord
from engine.timeline.recorder import TimelineRecorder
from engine.usage.recorder import Recorder
from engine.usage.store import FOLDER, place
from engine.wasm.runner import Runner
from engine.watch import Watcher
from engine.workers.fleet import Fleet
from engine.workers.wire import Start
from svc_tui import migrating
from svc_tui.assembly import doors, lanes
from svc_tui.devlog import DevLog, duration
from svc_tui.home import Home
from svc_tui.terminal import diagnostics, output
from svc_tui.terminal.output import Styled

DOMAIN = "localhost"
GRACE_SECONDS = 1.0
TICK_SECONDS = 0.2
GATHER_SECONDS = 0.02


def dev(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 3000,
    release: Annotated[
        bool, typer.Option("--release", help="Serve deploy builds instead of the fast dev builds.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, max=64, help="Processes that serve, a socket each.")
    ] = 1,
) -> None:
    """Serve the Project in this folder at http://localhost:PORT and rebuild what you save."""
    root = find(Path.cwd())
    project = load(root)
    allow_connections()
    sockets = bind_each("localhost", port, workers) if workers > 1 else [bind("localhost", port)]
    cache = Home.from_environment(os.environ).cache()
    asyncio.run(_serve(project, sockets, cache, release=release))


async def _serve(project: Project, sockets: list[list[socket.socket]], cache: Path, *, release: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    port = sockets[0][0].getsockname()[1]
    timeline, runner, parts = Timeline(), Runner(cache), lanes()

    lines = _Lines(loop, stop)
    log = DevLog(lines.add)
    timeline.subscribe(log)
    recorders = (
        TimelineRecorder(timeline_place(project.root), timeline, _warn),
        Recorder(place(project.root), timeline, _warn),
    )

    def told_built(event: Built) -> None:
        _tell_built(event)
        recorders[0](_built(event))  # not by the timeline, whose log prints to the same terminal

    mode: BuildMode = "deploy" if release else "dev"
    data = project.root / FOLDER
    await migrating.apply(project.root, data)
    opened = Doors(doors(), project.name, data, timeline)
    fleet = None
    if len(sockets) > 1:
        start = Start(False, data, cache, mode, DOMAIN, True, GRACE_SECONDS)
        fleet = Fleet(sockets, start, lambda _: timeline, diagnostics.warn, "svc_tui.worker")
    setting = Setting(
        parts,
        runner,
        cache,
        DOMAIN,
        mode,
        os.environ,
        diagnostics.progress,
        told_built,
        opened,
        fleet.publish if fleet else None,
    )
    live = LiveProject(project, setting)
    watcher = Watcher(live, load, diagnostics.render, diagnostics.note)
    gateway = Gateway(lambda: live.routes, lambda _: timeline, GatewaySettings(dev=True))
    serving = loop.create_task(
        fleet.run(stop) if fleet else serve(gateway, sockets[0], stop=stop, grace=GRACE_SECONDS)
    )
    ticking = loop.create_task(_tick(log))
    watching = loop.create_task(watcher.run(stop))
    keeping = loop.create_task(migrating.keep(project.root, data, stop))
    controlling = loop.create_task(_control(project.name, data, stop))
    try:
        for warning in warnings(project):
            diagnostics.warn(warning.message, warning.hint)
        for resource in project.resources.values():
            for name in (name for name in resource.secrets if name not in os.environ):
                diagnostics.warn(
                    f"resource {resource.name}: the secret {name} has no value",
                    f"In dev it comes from the environment: {name}=… svc dev",
                )
        await watcher.ready.wait()
        live.rebuild(set(project.resources))
        ready = loop.create_task(live.ready())
        stopped = loop.create_task(stop.wait())
        await asyncio.wait({ready, stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set() and not serving.done():
            for line in addresses(live.project, port):
                output.line(line)
            await asyncio.wait({watching, serving}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        ready.cancel()
    finally:
        stop.set()
        ticking.cancel()
        runner.stop_all()
        await live.aclose()
        await watching
        await keeping
        await serving
        await controlling
        await asyncio.gather(*(lane.aclose() for lane in parts.values()))
        await runner.aclose()
        await opened.aclose()
        for recorder in recorders:
            recorder.close()
        lines.write()


async def _control(project: str, data: Path, stop: asyncio.Event) -> None:
    """Serve the control API beside the Project, once the framework under it is loaded."""
    control = await asyncio.to_thread(importlib.import_module, "svc_tui.control")
    try:
        await control.serve_project(project, data, stop)
    except SvcError as error:
        _warn(error)


class _Lines:
    """The log's lines on their way to the output, a moment's worth at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        self._loop = loop
        self._stop = stop
        self._waiting: list[Styled] = []

    def add(self, line: Styled) -> None:
        """Have a line written soon."""
        if not self._waiting:
            self._loop.call_later(GATHER_SECONDS, self.write)
        self._waiting.append(line)

    def write(self) -> None:
        """Write what waits; whoever closes the pipe has seen enough, and ends the server well."""
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        try:
            output.styled_lines(lines)
        except SystemExit:
            self._stop.set()


async def _tick(log: DevLog) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        log.tick(time.time_ns())


def _warn(error: SvcError) -> None:
    diagnostics.warn(error.message, error.hint)


def _tell_built(event: Built) -> None:
    if event.error is not None:
        diagnostics.render(event.error)
        diagnostics.note(
            f"{event.resource}: the last version that built goes on serving" if event.again else ""
        )
        return
    verb = "rebuilt" if event.again else "ready"
    diagnostics.note(f"{event.resource} {verb} in {duration(int(event.seconds * 1e9))}")


def _built(event: Built) -> PlatformRecord:
    if event.error is not None:
        return PlatformRecord(
            time.time_ns(), event.resource, "ERROR", f"did not build: {event.error.message}"
        )
    text = f"built in {duration(int(event.seconds * 1e9))}"
    return PlatformRecord(time.time_ns(), event.resource, "INFO", text)


def addresses(project: Project, port: int) -> list[Text]:
    """Return the lines that say where each Resource is."""
    mounted: dict[str, list[str]] = {}
    for resource in project.resources.values():
        for mount in resource.mounts:
            mounted.setdefault(mount.target, []).append(f"{resource.name}:{mount.pattern}")
    lines = [Text.assemble("\n  ", (project.name, "bold"), f"  http://localhost:{port}/\n")]
    width = max((len(name) for name in project.resources), default=0)
    for name, resource in project.resources.items():
        where = ", ".join(mounted.get(name, []))
        place = (
            f"http://{name}--{project.name}.{DOMAIN}:{port}/"
            if resource.public
            else f"private, mounted at {where}"
            if where
            else "private, not mounted"
        )
        lines.append(Text.assemble("  ", (f"{name:<{width}}", "cyan"), f"  {resource.lane:<6}  {place}"))
    lines.append(Text("\n  watching for changes · ctrl+c stops\n", "dim"))
    return lines
