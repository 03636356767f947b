"""A real server on a free port around a Gateway, for tests that speak HTTP to it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import httpx

from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.routes import RouteTable, Version
from engine.http.connection_limits import ConnectionLimiter
from engine.http.server import serve
from engine.http.sockets import bind
from engine.manifest.model import Project, Resource
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record, RequestRecord
from engine.wasm.execution.run_state import GuestRequest, Outcome, RunReport
from engine.wasm.outbound.door_calls import DoorBinding


class Scripted:
    """A dynamic version whose run is a coroutine function of the test."""

    def __init__(self, body: Callable[[GuestRequest], Awaitable[RunReport]]) -> None:
        self._body = body

    async def run(self, request: GuestRequest) -> RunReport:
        return await self._body(request)


def report(outcome: Outcome = "ok", status: int | None = 200, **fields: Any) -> RunReport:
    values = {"wall_ns": 5, "compute_ns": 3, "peak_memory": 7, "bytes_in": 0, "bytes_out": 0} | fields
    complete = values.pop("complete", outcome == "ok")
    return RunReport(outcome=outcome, status=status, complete=complete, **values)


async def reply(
    request: GuestRequest, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]
) -> RunReport:
    """Respond to a request as a guest's run does."""
    length = (b"content-length", str(len(body)).encode())
    await request.exchange.send_head(status, [length, *headers])
    await request.exchange.send_body(body, end=True)
    return report(status=status, bytes_out=len(body))


def echo() -> Scripted:
    """Return a version that responds with the request line."""

    async def body(request: GuestRequest) -> RunReport:
        text = f"{request.method} {request.authority} {request.target}"
        return await reply(request, text.encode())

    return Scripted(body)


class Site:
    """A served project; `get` and friends speak to it over a socket."""

    def __init__(
        self, port: int, timeline: TimelineBus, client: httpx.AsyncClient, stop: asyncio.Event
    ) -> None:
        self.port = port
        self.stop = stop
        self.records: list[Record] = []
        timeline.subscribe(self.records.append)
        self.client = client

    @property
    def spans(self) -> list[RequestRecord]:
        return [record for record in self.records if isinstance(record, RequestRecord)]

    async def ask(
        self, path: str, host: str = "localhost", method: str = "GET", **more: Any
    ) -> httpx.Response:
        headers = {"host": host, **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def raw(self, request: bytes) -> bytes:
        """Send bytes; return all received bytes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        await writer.drain()
        try:
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()


def with_site(
    resources: list[Resource],
    versions: Mapping[str, Version],
    test: Callable[[Site], Awaitable[Any]],
    *,
    dev: bool = False,
    scheme: str = "",
    max_body: int = 1 << 20,
    limiter: ConnectionLimiter | None = None,
    grace: float = 0.2,
    domains: Collection[str] | None = None,
    doors: Mapping[str, DoorBinding] | None = None,
) -> Any:
    """Serve a project named `shop` and run the test against it."""

    async def main() -> Any:
        project = Project("shop", Path("/"), {r.name: r for r in resources})
        table = RouteTable.build(project, versions, domain="localhost", domains=domains)
        timeline, stop = TimelineBus(), asyncio.Event()
        settings = GatewaySettings(dev=dev, max_body=max_body, scheme=scheme)
        gateway = Gateway(lambda: table, lambda _: timeline, settings, doors_of=lambda _: doors or {})
        sockets = bind("localhost", 0)
        port = sockets[0].getsockname()[1]
        server = asyncio.create_task(serve(gateway, sockets, stop=stop, grace=grace, limiter=limiter))
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                return await test(Site(port, timeline, client, stop))
        finally:
            stop.set()
            await server

    return asyncio.run(main())
