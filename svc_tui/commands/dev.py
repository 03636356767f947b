"""`svc dev`: serve the Project in this folder, and rebuild what is saved."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from engine.control.discovery import Endpoint
from engine.dev.project import BuildFinished
from engine.errors import SvcError
from engine.gateway.app import MAX_BODY
from engine.http.sockets import allow_connections, bind, bind_each
from engine.lane import BuildMode
from engine.manifest.load import find, load
from engine.manifest.model import Project
from engine.timeline.bus import TimelineBus
from svc_tui.deploy.format import address_lines
from svc_tui.dev.request_log import RequestLog, duration
from svc_tui.dev.server import DOMAIN, Settings, run_dev
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Styled
from svc_tui.user_home import Home

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
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="MIB", min=1, max=1024, help="Most that a request may carry.")
    ] = MAX_BODY >> 20,
) -> None:
    """Serve the Project in this folder at http://localhost:PORT and rebuild what you save."""
    root = find(Path.cwd())
    project = load(root)
    allow_connections()
    sockets = bind_each("localhost", port, workers) if workers > 1 else [bind("localhost", port)]
    mode: BuildMode = "deploy" if release else "dev"
    cache = Home.from_environment(os.environ).cache()
    asyncio.run(_serve(project, Settings(sockets, cache, mode, max_body << 20)))


async def _serve(project: Project, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    lines = _Lines(loop, stop)
    log = RequestLog(lines.add)
    timeline = TimelineBus()
    timeline.subscribe(log)
    ticking = loop.create_task(_tick(log))
    try:
        async with run_dev(project, settings, timeline, _Told(), stop) as running:
            running.presence.add_done_callback(_tell_of_control)
            ready = loop.create_task(running.dev.ready())
            stopped = loop.create_task(stop.wait())
            waited: set[asyncio.Future[Any]] = {ready, stopped, running.ended}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set() and not running.ended.done():
                for line in addresses(running.dev.project, settings.port):
                    stdout.line(line)
                await running.ended
            stopped.cancel()
            ready.cancel()
    finally:
        ticking.cancel()
        lines.write()


class _Told:
    """Says on stderr what happens beside requests."""

    def error(self, error: SvcError) -> None:
        stderr.render(error)

    def warn(self, error: SvcError) -> None:
        stderr.warn(error.message, error.hint)

    def note(self, text: str) -> None:
        stderr.note(text)

    def progress(self, text: str) -> None:
        stderr.progress(text)

    def built(self, event: BuildFinished) -> None:
        if event.error is not None:
            stderr.render(event.error)
            stderr.note(
                f"{event.resource}: the last version that built goes on serving" if event.rebuild else ""
            )
            return
        verb = "rebuilt" if event.rebuild else "ready"
        stderr.note(f"{event.resource} {verb} in {duration(int(event.seconds * 1e9))}")


def _tell_of_control(presence: "asyncio.Future[Endpoint]") -> None:
    if not presence.cancelled() and isinstance(error := presence.exception(), SvcError):
        stderr.warn(error.message, error.hint)


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
            stdout.styled_lines(lines)
        except SystemExit:
            self._stop.set()


async def _tick(log: RequestLog) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        log.tick(time.time_ns())


def addresses(project: Project, port: int) -> list[Text]:
    """Return the lines that say where each Resource is."""
    mounted: dict[str, list[str]] = {}
    for resource in project.resources.values():
        for mount in resource.mounts:
            mounted.setdefault(mount.target, []).append(f"{resource.name}:{mount.pattern}")
    lines = [Text.assemble("\n  ", (project.name, "bold"), f"  http://localhost:{port}/\n")]
    there = [
        {
            "resource": name,
            "lane": resource.lane,
            "url": f"http://{name}--{project.name}.{DOMAIN}:{port}/" if resource.public else None,
            "mounted": mounted.get(name, []),
        }
        for name, resource in project.resources.items()
    ]
    lines += [Text.assemble("  ", line) for line in address_lines(there)]
    lines.append(Text("\n  watching for changes · ctrl+c stops\n", "dim"))
    return lines
