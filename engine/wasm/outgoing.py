"""Sends the guests' outgoing requests, without blocking anyone.

Owns connections to other servers and the limits on what may be called (`egress`). What a guest sees is in
`wasi/http_outgoing.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpcore

from engine.wasm.codec import Err
from engine.wasm.egress import Egress, Origin, parse_authority
from engine.wasm.run import Run
from engine.wasm.streams import Inflow, Outflow
from engine.wasm.wasi.http_fields import FORBIDDEN
from engine.wasm.wasi.http_outgoing import (
    FutureIncomingResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestOptions,
)

CONNECT_NS = 10_000_000_000
READ_NS = 600_000_000_000
_ERRORS: list[tuple[type[Exception], tuple[str, Any]]] = [
    (httpcore.ConnectTimeout, ("connection-timeout", None)),
    (httpcore.ReadTimeout, ("connection-read-timeout", None)),
    (httpcore.WriteTimeout, ("connection-write-timeout", None)),
    (httpcore.PoolTimeout, ("connection-limit-reached", None)),
    (httpcore.ConnectError, ("connection-refused", None)),
    (httpcore.RemoteProtocolError, ("HTTP-protocol-error", None)),
    (httpcore.LocalProtocolError, ("HTTP-protocol-error", None)),
    (httpcore.NetworkError, ("connection-terminated", None)),
]


def error_code(error: Exception) -> tuple[str, Any]:
    """Return the wasi:http error-code for a failure of the network."""
    if isinstance(error, httpcore.ConnectError) and "name" in str(error).lower():
        return ("DNS-error", (None, None))
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), ("internal-error", None))


class Outgoing:
    """One connection pool for all guests of an engine."""

    def __init__(self) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=256, max_keepalive_connections=64, keepalive_expiry=15
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    def fetch(
        self,
        egress: Egress,
        run: Run,
        request: OutgoingRequest,
        options: RequestOptions,
        future: FutureIncomingResponse,
    ) -> None:
        """Start a request; called from guest code, so it only notes what the loop shall do.

        Raises `Err` with a wasi:http error-code for what can be told at once.
        """
        origin = _origin(request)
        if not egress.allows(origin):
            run.notices.append(
                (
                    "WARN",
                    f"a call to {origin} was denied; to allow it, add to this Resource in svc.toml: "
                    f'egress = ["{origin}"]',
                )
            )
            raise Err(("HTTP-request-denied", None))

        def start() -> None:
            exchange = self._exchange(run, origin, request, options, future)
            task = asyncio.get_running_loop().create_task(exchange)
            run.tasks.add(task)
            future.cancel = task.cancel

        run.on_loop(start)

    async def _exchange(
        self,
        run: Run,
        origin: Origin,
        request: OutgoingRequest,
        options: RequestOptions,
        future: FutureIncomingResponse,
    ) -> None:
        flow = Inflow()
        try:
            response = await self._pool.handle_async_request(_http_request(run, origin, request, options))
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            future.result = ("err", error_code(error))
            run.wake()
            return
        try:
            headers = [(name.decode("latin-1").lower(), value) for name, value in response.headers]
            visible = [item for item in headers if item[0] not in FORBIDDEN]
            future.result = ("ok", IncomingResponse(response.status, visible, flow))
            run.wake()
            await _receive(run, response, flow)
        finally:
            await response.aclose()


async def _receive(run: Run, response: httpcore.Response, flow: Inflow) -> None:
    """Pass the body on, held back by what the guest has not read."""
    room = asyncio.Event()
    flow.on_room = lambda: run.on_loop(room.set)
    try:
        async for chunk in response.aiter_stream():
            flow.feed(chunk)
            run.wake()
            while flow.full:
                room.clear()
                await room.wait()
        flow.end()
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
        flow.end(error_code(error))
    run.wake()


def _origin(request: OutgoingRequest) -> Origin:
    scheme = (request.scheme or ("HTTPS", None))[0].lower()
    try:
        return parse_authority(scheme, request.authority or "")
    except ValueError:
        raise Err(("HTTP-request-URI-invalid", None)) from None


def _http_request(
    run: Run, origin: Origin, request: OutgoingRequest, options: RequestOptions
) -> httpcore.Request:
    headers = [
        (name.encode("latin-1"), value) for name, value in request.headers.items if name not in FORBIDDEN
    ]
    names = {name for name, _ in headers}
    body = request.body
    if body is None:
        content: Any = b""
    else:
        content = _upload(run, body)
        if b"content-length" not in names:
            headers.append((b"transfer-encoding", b"chunked"))
    name, other = request.method
    seconds = {
        "connect": (options.connect or CONNECT_NS) / 1e9,
        "read": (options.first_byte or options.between_bytes or READ_NS) / 1e9,
        "write": (options.between_bytes or READ_NS) / 1e9,
        "pool": CONNECT_NS / 1e9,
    }
    return httpcore.Request(
        (other or name.upper()).encode(),
        httpcore.URL(
            scheme=origin.scheme.encode(),
            host=origin.host.encode(),
            port=origin.port,
            target=(request.path or "/").encode(),
        ),
        headers=[(b"host", (request.authority or "").encode()), *headers],
        content=content,
        extensions={"timeout": seconds},
    )


async def _upload(run: Run, body: Outflow) -> AsyncIterator[bytes]:
    """Yield what the guest writes, as it writes it."""
    changed = asyncio.Event()
    body.on_change = lambda: run.on_loop(changed.set)
    while True:
        changed.clear()
        data = body.drain()
        if data:
            run.wake()
            yield data
        elif body.finished:
            return
        elif body.broken is not None:
            raise httpcore.LocalProtocolError("the guest left its request body unfinished")
        else:
            await changed.wait()
