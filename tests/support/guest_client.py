"""A client without a connection, for tests of guests."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from engine.http.exchange import RequestBody
from engine.trace import Call
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.execution.runner import Guest
from tests.engine.exchanges import CollectingExchange


@dataclass
class Answer:
    """A run's response as seen by the client, and its report."""

    report: RunReport
    status: int | None
    headers: dict[bytes, bytes]
    chunks: list[bytes]
    ended: bool
    lines: list[tuple[str, str]]
    calls: tuple[Call, ...] = ()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


@dataclass
class Client:
    """A client without a connection: sends a body in pieces, may disconnect, may read slowly.

    It disconnects after a number of chunks, or when the event `leave` is set.
    """

    body: list[bytes] = field(default_factory=list)
    leave_after: int | None = None
    leave: asyncio.Event | None = None
    pause: Callable[[], Awaitable[None]] | None = None
    max_body: int = 32 << 20
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def call(self, guest: Guest, target: str, method: str = "GET") -> Answer:
        body = RequestBody(b"".join(self.body) if len(self.body) < 2 else None)
        if not body.complete:
            for piece in self.body:
                body.feed(piece)
            body.finish()
        headers = [(b"host", b"api.localhost"), *self.headers]
        if self.body:
            headers.append((b"transfer-encoding", b"chunked"))

        exchange = CollectingExchange(target, body=body, before_send=self.pause, leave_after=self.leave_after)
        lines: list[tuple[str, str]] = []
        request = GuestRequest(
            exchange=exchange,
            method=method,
            scheme="http",
            authority="api.localhost",
            target=target,
            headers=headers,
            env={"SVC_REQUEST_ID": "request-1"},
            max_body=self.max_body,
            on_line=lambda stream, text: lines.append((stream, text)),
            on_notice=lambda level, text, grant: lines.append((level, text)),
        )
        leaving = asyncio.create_task(self._leave(exchange))
        started = time.perf_counter_ns()
        report = await guest.run(request)
        leaving.cancel()
        chunks = [part for part in exchange.parts if part]
        ended = bool(exchange.ends) and exchange.ends[-1]
        calls = request.trace.finish(started, "00f067aa0ba902b7") if request.trace is not None else ()
        return Answer(report, exchange.status, dict(exchange.headers), chunks, ended, lines, calls)

    async def _leave(self, exchange: CollectingExchange) -> None:
        if self.leave is not None:
            await self.leave.wait()
            exchange.leave()
