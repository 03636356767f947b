"""The development server in a terminal: its addresses, request log and builds."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from engine.control.discovery import ControlEndpoint
from engine.control.routes.state import dev_url
from engine.control.schemas import AddressOut
from engine.dev.project import BuildFinished
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.temporary import temporary_folder
from engine.manifest.model import Project
from engine.timeline.bus import TimelineBus
from svc_tui.deploy.format import address_lines, no_address
from svc_tui.dev.request_log import RequestLog
from svc_tui.dev.server import Settings, run_dev
from svc_tui.garbage_collection import collect_for_server
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.signals import on_stop, run_command
from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.units import duration

TICK_SECONDS = 0.2
FLUSH_DELAY_SECONDS = 0.02


async def run(project: Project, settings: Settings) -> None:
    """Serve the project until a signal or a closed pipe. Prints its addresses, requests and builds."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    on_stop(lambda _: stop.set())
    lines = _LineBuffer(loop, stop)
    log = RequestLog(lines.add)
    timeline = TimelineBus()
    timeline.subscribe(log)
    ticker = loop.create_task(_tick(log))
    try:
        async with run_dev(project, settings, timeline, _TerminalReporter(), stop) as running:
            if stop.is_set():  # The sockets are closed.
                return
            for line in addresses(running.dev.project, settings.port):
                stdout.line(line)
            collect_for_server()
            running.presence.add_done_callback(_warn_of_control)
            ready = loop.create_task(running.dev.ready())
            stopped = loop.create_task(stop.wait())
            tasks: set[asyncio.Future[Any]] = {ready, stopped, running.ended}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set() and not running.ended.done():
                stdout.line(Text("\n  watching for changes · press Ctrl+C to stop\n", "dim"))
                await running.ended
            stopped.cancel()
            ready.cancel()
    finally:
        ticker.cancel()
        lines.write()


async def run_test(project: Project, settings: Settings, command: Sequence[str], *, verbose: bool) -> int:
    """Serve the project with new data while a command runs, and return its exit code; 1 if a build fails.

    Signals are forwarded to the command. Failed requests go to stderr, all of them if `verbose`.
    """
    signals = asyncio.Queue[int]()
    on_stop(signals.put_nowait)
    timeline, reporter = TimelineBus(), _TerminalReporter(quiet=True)
    timeline.subscribe(RequestLog(lambda line: stderr.line(Text.assemble(*line)), failures_only=not verbose))
    url = partial(dev_url, settings.port)
    with temporary_folder("svc-test-") as folder:
        environ = {"SVC_TEST_URL": url(project.name), "SVC_TEST_DATA": str(Path(folder, DATA_DIR))}
        for name in (name for name, resource in project.resources.items() if resource.public):
            environ[f"SVC_TEST_URL_{name.upper().replace('-', '_')}"] = url(project.name, name)
        settings = replace(settings, home=folder)
        async with run_dev(project, settings, timeline, reporter, asyncio.Event()) as running:
            building = asyncio.ensure_future(running.dev.built())
            stopped = asyncio.ensure_future(signals.get())
            tasks: set[asyncio.Future[Any]] = {building, stopped}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                building.cancel()
                return 128 + stopped.result()
            stopped.cancel()
            if not building.result() or reporter.failed:
                stderr.note(f"did not run {command[0]}")
                return 1
            await running.presence
            return await run_command(command, project.root, os.environ | environ, signals)


class _TerminalReporter:
    """Reports builds, warnings and errors on stderr; if `quiet`, not what succeeds.

    `failed` is true after an error outside of builds.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.failed = False

    def error(self, error: SvcError) -> None:
        self.failed = True
        stderr.render(error)

    def warn(self, error: SvcError) -> None:
        stderr.warn(error.message, error.hint)

    def note(self, text: str) -> None:
        stderr.note("" if self._quiet else text)

    def progress(self, text: str) -> None:
        stderr.progress(text)

    def built(self, event: BuildFinished) -> None:
        if event.error is not None:
            stderr.render(event.error)
            serving = "the last successful build"
            if event.from_folder:
                serving = "its folder: a missing file answers 404"
            self.note(f"{event.resource}: still serving {serving}" if event.rebuild else "")
            return
        verb = "builds again," if event.recovered else "rebuilt" if event.rebuild else "ready"
        self.note(f"{event.resource} {verb} in {duration(int(event.seconds * 1e9))}")


def _warn_of_control(presence: "asyncio.Future[ControlEndpoint]") -> None:
    if not presence.cancelled() and isinstance(error := presence.exception(), SvcError):
        stderr.warn(error.message, error.hint)


class _LineBuffer:
    def __init__(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        self._loop = loop
        self._stop = stop
        self._buffer: list[Styled] = []

    def add(self, line: Styled) -> None:
        if not self._buffer:
            self._loop.call_later(FLUSH_DELAY_SECONDS, self.write)
        self._buffer.append(line)

    def write(self) -> None:
        """Write all buffered lines. A closed pipe stops the server gracefully."""
        lines, self._buffer = self._buffer, []
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
    """Return the lines with the address of each resource."""
    rows = [each.model_dump() for each in AddressOut.of(project, lambda *names: f"{dev_url(port, *names)}/")]
    address = f"{dev_url(port, project.name)}/" if project.front is not None else no_address(rows)
    lines = [Text.assemble("\n  ", (project.name, "bold"), f"  {address}\n")]
    return [*lines, *(Text.assemble("  ", line) for line in address_lines(rows)), Text()]
