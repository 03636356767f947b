"""An exchange without a connection, whose response tests read."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from engine.http.exchange import Disconnected, Headers, MemoryExchange, Request, RequestBody
from engine.manifest.model import Resource
from engine.wasm.execution.run_state import GuestRequest

PLAIN = Resource("web", "static", Path())
"""A static resource without settings."""


class CollectingExchange(MemoryExchange):
    """Collects a response: its head, and each part of its body with its end flag.

    `before_send` is awaited before each message, `on_part` called with each part of the body. The client
    disconnects after `leave_after` non-empty parts.
    """

    def __init__(
        self,
        path: str = "/",
        *headers: tuple[bytes, bytes],
        method: str = "GET",
        query: bytes = b"",
        body: RequestBody | None = None,
        disconnected: Disconnected | None = None,
        before_send: Callable[[], Awaitable[None]] | None = None,
        on_part: Callable[[bytes], None] = lambda data: None,
        leave_after: int | None = None,
    ) -> None:
        super().__init__(Request(method=method, scheme="http", path=path, query=query, headers=list(headers)))
        self.body = body or self.body
        self.disconnected = disconnected or self.disconnected
        self.headers: Headers = []
        self.parts: list[bytes] = []
        self.ends: list[bool] = []
        self._before_send = before_send
        self._on_part = on_part
        self._leave_after = leave_after

    async def send_head(self, status: int, headers: Headers) -> None:
        if self._before_send is not None:
            await self._before_send()
        self.status, self.headers = status, headers

    async def send_body(self, data: bytes, *, end: bool) -> None:
        if self._before_send is not None:
            await self._before_send()
        self.parts.append(data)
        self.ends.append(end)
        self._on_part(data)
        if self._leave_after is not None and sum(map(bool, self.parts)) >= self._leave_after:
            asyncio.get_running_loop().call_soon(self.leave)  # as a connection reports it, not within a send

    def leave(self) -> None:
        """Disconnect the client."""
        self.body.interrupt()
        self.disconnected.set()


def guest_request(exchange: MemoryExchange | None = None, **fields: Any) -> GuestRequest:
    """Return a request for a guest."""
    values: dict[str, Any] = {
        "method": "GET",
        "scheme": "http",
        "authority": "x",
        "target": "/",
        "headers": [],
        "env": {},
        "max_body": 0,
        "on_line": lambda stream, text: None,
    }
    return GuestRequest(exchange=exchange or CollectingExchange(), **values | fields)
