"""The process of one worker, which inherits its channel and its sockets as descriptors.

Owns a runner, a gateway and a server; what they serve, and when to stop, the fleet says. It lives as long as
its channel: when the fleet is gone, it ends.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence

from engine.artifact import Artifact
from engine.deploy.doors import Doors
from engine.deploy.versions import Publication, Versions
from engine.door import Door
from engine.errors import SvcError
from engine.gateway.app import Gateway, GatewaySettings
from engine.manifest.model import Resource
from engine.routes import NotReady, RouteTable, Version
from engine.server import serve
from engine.timeline.feed import Timeline
from engine.timeline.record import Record
from engine.wasm.runner import Runner
from engine.workers.wire import Channel, Publish, Published, Records, Start

GATHER_SECONDS = 0.05
"""How long records wait for each other."""


class Mirror:
    """The routes of the last publication; a Resource that did not change keeps its Version."""

    def __init__(self, versions: Versions, domain: str) -> None:
        self._make = versions
        self._domain = domain
        self._made: dict[str, tuple[Resource, Artifact, Version]] = {}
        self.routes: RouteTable | None = None

    async def apply(self, publication: Publication) -> None:
        """Serve a publication from now on."""
        versions: dict[str, Version] = {}
        for name, resource in publication.project.resources.items():
            versions[name] = await self._version(publication, resource)
        self._made = {name: made for name, made in self._made.items() if name in versions}
        self.routes = RouteTable.build(publication.project, versions, domain=self._domain)

    async def _version(self, publication: Publication, resource: Resource) -> Version:
        name, part = resource.name, publication.parts.get(resource.name)
        if part is None or isinstance(part, SvcError):
            return NotReady(name, part)
        made = self._made.get(name)
        if made is not None and made[:2] == (resource, part):
            return made[2]
        try:
            version = await self._make.make(publication.project.name, resource, part)
        except SvcError as error:
            return NotReady(name, error)
        self._made[name] = (resource, part, version)
        return version

    def table(self) -> RouteTable:
        """Return the routes in force; not before the first publication."""
        assert self.routes is not None
        return self.routes


class Reporter:
    """Takes a timeline's records to the fleet, a moment's worth at a time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: list[Record] = []

    def __call__(self, record: Record) -> None:
        """Take one record."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)
        self._waiting.append(record)

    def flush(self) -> None:
        """Send what waits."""
        records, self._waiting = self._waiting, []
        if records:
            self._channel.send(Records(records))


async def work(channel: Channel, sockets: list[socket.socket], doors: Sequence[Door]) -> None:
    """Serve what the fleet says until it says no more."""
    start = await channel.receive()
    if not isinstance(start, Start):
        return
    stop, runner, timeline, reporter = asyncio.Event(), Runner(start.cache), Timeline(), Reporter(channel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    timeline.subscribe(reporter)
    opened = Doors(doors, start.project, start.data, timeline)
    mirror = Mirror(Versions(runner, start.mode, os.environ, lambda line: None, opened), start.domain)
    gateway = Gateway(mirror.table, timeline, GatewaySettings(dev=start.dev))
    serving: asyncio.Task[None] | None = None
    stopping = asyncio.create_task(stop.wait())
    try:
        while True:
            hearing = asyncio.create_task(channel.receive())
            await asyncio.wait({hearing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set() or hearing.result() is None:
                hearing.cancel()
                break
            message: Publish = hearing.result()
            await mirror.apply(message.publication)
            channel.send(Published(message.number))
            if serving is None:
                serving = asyncio.create_task(serve(gateway, sockets, stop=stop, grace=start.grace))
    finally:
        stop.set()
        runner.stop_all()
        if serving is not None:
            await serving
        await runner.aclose()
        await opened.aclose()
        reporter.flush()
        await channel.drain()
        channel.close()


def main(descriptors: Sequence[str], doors: Sequence[Door]) -> None:
    """Serve with the channel and the sockets whose numbers are given, until the fleet says no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the fleet says when.
    asyncio.run(_main(doors, *map(int, descriptors)))


async def _main(doors: Sequence[Door], channel: int, *sockets: int) -> None:
    listening = [_listening(number) for number in sockets]
    await work(await Channel.open(socket.socket(fileno=channel)), listening, doors)


def _listening(number: int) -> socket.socket:
    opened = socket.socket(fileno=number)
    opened.setblocking(False)
    return opened
