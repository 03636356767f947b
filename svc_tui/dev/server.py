"""A Project in its developer's hands, put together: builds, watcher, gateway, Doors, timeline, control API.

What `svc dev` and the Console run. It prints nothing: what is worth knowing goes to a `Teller`.
"""

import asyncio
import importlib
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.control.discovery import Presence
from engine.deploy.doors import Doors, Uses
from engine.dev.project import Built, LiveProject, Setting
from engine.dev.watch import Watcher
from engine.errors import SvcError
from engine.gateway.app import MAX_BODY, Gateway, GatewaySettings
from engine.gateway.replay import Replayer
from engine.http.server import serve
from engine.lane import BuildFailed, BuildMode
from engine.manifest.load import load, warnings
from engine.manifest.model import Project
from engine.timeline.bus import Timeline
from engine.timeline.database import place as timeline_place
from engine.timeline.rates import Rates
from engine.timeline.record import PlatformRecord
from engine.timeline.recorder import TimelineRecorder
from engine.usage.recorder import Recorder
from engine.usage.store import FOLDER, place
from engine.wasm.execution.runner import Runner
from engine.workers.pool import Fleet
from engine.workers.protocol import Start
from svc_tui.composition import doors, lanes
from svc_tui.dev import migrations
from svc_tui.dev.request_log import duration

DOMAIN = "localhost"
GRACE_SECONDS = 1.0


class Teller(migrations.Teller, Protocol):
    """Who hears of what happens beside requests; called on the loop that the Project runs on."""

    def progress(self, text: str) -> None:
        """Something takes its time."""

    def built(self, event: Built) -> None:
        """A build ended."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run. `sockets` has a set of bound sockets for each process that serves."""

    sockets: list[list[socket.socket]]
    cache: Path
    mode: BuildMode
    max_body: int = MAX_BODY
    """The most bytes that a request may carry."""

    @property
    def port(self) -> int:
        """The port of the Project's addresses."""
        return int(self.sockets[0][0].getsockname()[1])


@dataclass(frozen=True, slots=True)
class Development:
    """A Project that runs. `ended` is done when it does no longer, for whatever reason.

    `presence` is where its control API is, once the framework under that is loaded.
    """

    live: LiveProject
    presence: "asyncio.Future[Presence]"
    ended: "asyncio.Future[None]"


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the control API tells of: a Project that is served on a port, the folder of its data, and more."""

    live: LiveProject
    folder: Path
    port: int
    rates: Rates
    uses: Uses
    replayer: Replayer


@asynccontextmanager
async def developing(
    project: Project, settings: Settings, timeline: Timeline, tell: Teller, stop: asyncio.Event
) -> AsyncIterator[Development]:
    """Run a Project until the context is left or `stop` is set, which leaving does. Builds are begun."""
    loop = asyncio.get_running_loop()
    runner, parts = Runner(settings.cache), lanes()
    recorders = (
        TimelineRecorder(timeline_place(project.root), timeline, tell.warn),
        Recorder(place(project.root), timeline, tell.warn),
    )

    def told_built(event: Built) -> None:
        tell.built(event)
        recorders[0](_record(event))  # not by the timeline: who follows that is told already

    data = project.root / FOLDER
    await migrations.apply(project.root, data, tell)
    opened = Doors(doors(), project.name, data, timeline)
    fleet = None
    if len(settings.sockets) > 1:
        start = Start(
            *(False, data, settings.cache, settings.mode, DOMAIN, True, GRACE_SECONDS),
            max_body=settings.max_body,
        )
        fleet = Fleet(
            settings.sockets,
            start,
            lambda _: timeline,
            lambda _: opened.uses,
            lambda text: tell.warn(SvcError(text)),
            "svc_tui.worker",
        )
    live = LiveProject(
        project,
        Setting(
            parts,
            runner,
            settings.cache,
            DOMAIN,
            settings.mode,
            os.environ,
            tell.progress,
            told_built,
            opened,
            fleet.publish if fleet else None,
        ),
    )
    rates = Rates(lambda: live.project)
    timeline.subscribe(rates)
    watcher = Watcher(live, load, tell.error, tell.note)
    taking = GatewaySettings(dev=True, max_body=settings.max_body, record=True)
    gateway = Gateway(lambda: live.routes, lambda _: timeline, taking)
    serving = loop.create_task(
        fleet.run(stop) if fleet else serve(gateway, settings.sockets[0], stop=stop, grace=GRACE_SECONDS)
    )
    watching = loop.create_task(watcher.run(stop))
    keeping = loop.create_task(migrations.keep(project.root, data, stop, tell))
    presence: asyncio.Future[Presence] = loop.create_future()
    workplace = Workplace(live, data, settings.port, rates, opened.uses, Replayer(gateway, timeline))
    controlling = loop.create_task(_control(workplace, stop, presence))
    ended = loop.create_task(_either(watching, serving))
    try:
        _warn_of_manifest(project, tell)
        await watcher.ready.wait()
        live.rebuild(set(project.resources))
        yield Development(live, presence, ended)
    finally:
        stop.set()
        runner.stop_all()
        await live.aclose()
        await watching
        await keeping
        await serving
        await ended
        await controlling
        await asyncio.gather(*(lane.aclose() for lane in parts.values()))
        await runner.aclose()
        await opened.aclose()
        for recorder in recorders:
            recorder.close()


async def _either(*tasks: "asyncio.Task[None]") -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _control(workplace: Workplace, stop: asyncio.Event, presence: "asyncio.Future[Presence]") -> None:
    """Serve the control API beside the Project, once the framework under it is loaded."""
    api = await asyncio.to_thread(importlib.import_module, "svc_tui.dev.control_api")
    try:
        async with api.serving(workplace) as there:
            presence.set_result(there)
            await stop.wait()
    except SvcError as error:
        presence.set_exception(error)


def _warn_of_manifest(project: Project, tell: Teller) -> None:
    for warning in warnings(project):
        tell.warn(SvcError(warning.message, warning.hint))
    for resource in project.resources.values():
        for name in (name for name in resource.secrets if name not in os.environ):
            tell.warn(
                SvcError(
                    f"resource {resource.name}: the secret {name} has no value",
                    f"In dev it comes from the environment: {name}=… svc dev",
                )
            )


def _record(event: Built) -> PlatformRecord:
    if event.error is not None:
        said = event.error.said if isinstance(event.error, BuildFailed) else ""
        text = f"did not build: {event.error.message}\n{said}".rstrip("\n")
        return PlatformRecord(time.time_ns(), event.resource, "ERROR", text)
    text = f"built in {duration(int(event.seconds * 1e9))}"
    return PlatformRecord(time.time_ns(), event.resource, "INFO", text)
