"""The text guest behind a real server, and misbehaving clients."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events

from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.routes import RouteTable
from engine.http.server import serve
from engine.http.sockets import bind
from engine.manifest.model import Project, Resource
from engine.quota import NO_QUOTA, Quota
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record, RequestRecord
from engine.wasm.execution.runner import Runner
from tests.engine.wasm.text_guest import artifact

HOST = "api--shop.localhost"
PATIENCE = 60.0
"""Seconds that a test waits for what should happen at once."""


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        for _ in iter(true, True):
            await asyncio.sleep(0.01)


async def held(release: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a body once an event is set: `/e` runs until then."""
    await release.wait()
    yield b"hello\n"


@dataclass
class Hosted:
    """A served guest. `timeline` has all of its records, oldest first, and `records` those of requests."""

    port: int
    runner: Runner
    timeline: list[Record]

    @property
    def records(self) -> list[RequestRecord]:
        return [record for record in self.timeline if isinstance(record, RequestRecord)]

    async def recorded(self, count: int = 1) -> RequestRecord:
        """Wait until this many requests have ended; return the last one's record."""
        await until(lambda: len(self.records) >= count)
        return self.records[count - 1]


def hosted(
    cache: Path,
    test: Callable[[Hosted], Awaitable[Any]],
    *,
    pool: Any = None,
    queue: int = 1024,
    memory: int | None = None,
    max_body: int = 1 << 20,
    quota: Quota = NO_QUOTA,
    **fields: Any,
) -> Any:
    """Serve the text guest as `api` of `shop` and run `await test(hosted)`; `fields` are the resource's."""

    async def main() -> Any:
        runner, timeline, stop = (
            Runner(cache, pool, queue=queue, memory=memory),
            TimelineBus(),
            asyncio.Event(),
        )
        records: list[Record] = []
        timeline.subscribe(records.append)
        resource = Resource("api", "rust", Path("/"), public=True, **fields)
        environment = {"SVC_PROJECT": "shop"}
        guest = await runner.guest(
            resource, artifact(cache), environment, fast=False, report=lambda line: None
        )
        runner.quotas.set("shop", quota)
        project = Project("shop", Path("/"), {"api": resource})
        table = RouteTable.build(project, {"api": guest}, domain="localhost")
        settings = GatewaySettings(max_body=max_body)
        gateway = Gateway(lambda: table, lambda _: timeline, settings, runner.quotas)
        sockets = bind("127.0.0.1", 0)
        server = asyncio.create_task(serve(gateway, sockets, stop=stop, grace=0.2))
        try:
            return await test(Hosted(sockets[0].getsockname()[1], runner, records))
        finally:
            stop.set()
            await server
            await runner.aclose()

    return asyncio.run(main())


@dataclass
class Answer:
    """A response; `complete` is whether it ended properly."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False


Body = AsyncIterator[bytes] | None


async def ask(version: str, port: int, path: str, body: Body = None) -> Answer:
    """Send a request, with a streamed body if any, and read the complete response."""
    async with asyncio.timeout(PATIENCE), connected(version, port) as client:
        return await client.ask(path, body)


@contextlib.asynccontextmanager
async def connected(version: str, port: int) -> AsyncIterator["Http1 | Http2"]:
    """Connect a client of an HTTP version, "1.1" or "2"; unsent data is discarded at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Http1(reader, writer) if version == "1.1" else Http2(reader, writer)
    finally:
        writer.transport.abort()


class Client:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def reset(self) -> None:
        """Make the close of the connection a reset, which discards unsent data."""
        opened = self.writer.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Http1(Client):
    """A client that speaks HTTP/1.1."""

    async def send(self, path: str, body: Body = None) -> asyncio.Task[None] | None:
        """Send a request; return the task that sends its body."""
        method = "GET" if body is None else "POST"
        length = "" if body is None else "transfer-encoding: chunked\r\n"
        self.writer.write(f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\n{length}\r\n".encode())
        return asyncio.create_task(self._upload(body)) if body is not None else None

    async def _upload(self, body: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(ConnectionError):
            async for data in body:
                self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await self.writer.drain()
            self.writer.write(b"0\r\n\r\n")

    async def ask(self, path: str, body: Body = None) -> Answer:
        """Send a request and read its response."""
        upload = await self.send(path, body)
        try:
            return await self.answer()
        finally:
            if upload is not None:
                upload.cancel()

    async def head(self) -> Answer:
        """Read the head of a response."""
        answer = Answer()
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        answer.status = int(lines[0].split(b" ")[1])
        answer.headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
        return answer

    async def part(self) -> bytes:
        """Read one chunk of a body; empty at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> Answer:
        """Read a response to its end."""
        answer = await self.head()
        try:
            if b"content-length" in answer.headers:
                answer.body += await self.reader.readexactly(int(answer.headers[b"content-length"]))
            else:
                while part := await self.part():
                    answer.body += part
            answer.complete = True
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        return answer


class Http2(Client):
    """A client that speaks HTTP/2, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.connection.initiate_connection()
        self.stream = -1
        self.room = asyncio.Event()

    async def send(self, path: str, body: Body = None) -> asyncio.Task[None] | None:
        """Send a request; return the task that sends its body."""
        self.stream += 2
        method = "GET" if body is None else "POST"
        fields = [(":method", method), (":path", path), (":scheme", "http"), (":authority", HOST)]
        self.connection.send_headers(self.stream, fields, end_stream=body is None)
        self.flush()
        return asyncio.create_task(self._upload(self.stream, body)) if body is not None else None

    def flush(self) -> None:
        """Send the pending data of the protocol."""
        self.writer.write(self.connection.data_to_send())

    async def _upload(self, stream: int, body: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            async for data in body:
                while self.connection.local_flow_control_window(stream) < len(data):
                    self.room.clear()
                    await self.room.wait()
                self.connection.send_data(stream, data)
                self.flush()
                await self.writer.drain()
            self.connection.end_stream(stream)
            self.flush()

    async def ask(self, path: str, body: Body = None) -> Answer:
        """Send a request and read its response."""
        upload = await self.send(path, body)
        try:
            return await self.answer()
        finally:
            if upload is not None:
                upload.cancel()

    async def events(self) -> list[Any]:
        """Read the next events; return `[None]` at the end of the connection."""
        data = await self.reader.read(65536)
        events = self.connection.receive_data(data) if data else []
        self.room.set()
        self.flush()
        return events if data else [None]

    async def answer(self) -> Answer:
        """Read a response to its end or its reset."""
        answer = Answer()
        while True:
            for event in await self.events():
                if event is None or getattr(event, "stream_id", self.stream) != self.stream:
                    if event is None:
                        return answer
                elif isinstance(event, h2.events.ResponseReceived):
                    answer.headers = {bytes(k): bytes(v) for k, v in event.headers}
                    answer.status = int(answer.headers[b":status"])
                elif isinstance(event, h2.events.DataReceived):
                    answer.body += event.data
                    self.connection.acknowledge_received_data(event.flow_controlled_length, self.stream)
                    self.flush()
                elif isinstance(event, h2.events.StreamEnded):
                    answer.complete = True
                    return answer
                elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    return answer
