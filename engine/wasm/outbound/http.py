"""Outgoing HTTP requests of guests, sent from the event loop; `egress` decides which are allowed.

For replays without a network, recorded responses of other servers answer them.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter_ns, time_ns
from typing import Protocol

import anyio
import h11
import httpcore

from engine.cancellation import spawn
from engine.grant import Grant
from engine.manifest.egress import Egress, Origin, parse_authority
from engine.quota import Quotas
from engine.trace import Call, traceparent
from engine.wasm.execution.buffers import InputBuffer, OutputBuffer
from engine.wasm.execution.run_state import MAX_HELD_BYTES, RunState
from engine.wasm.outbound.connections import (
    AddressDenied,
    Connection,
    ConnectionPool,
    Dialer,
    NameNotResolved,
    Resolve,
    SystemResolver,
    connecting,
)
from engine.wasm.outbound.messages import (
    FORBIDDEN,
    ErrorCode,
    FutureResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestRefused,
)

CONNECT_TIMEOUT_NS = 10_000_000_000
READ_TIMEOUT_NS = 600_000_000_000
MAX_METHOD_CHARS = 20
IDLE_SECONDS = 30.0
"""Time without exchanges after which a pool is closed, with its idle connections."""


NETWORK_ERRORS = (AddressDenied, httpcore.NetworkError, httpcore.TimeoutException, h11.ProtocolError, OSError)
"""Errors that an outgoing request may raise."""
_INCOMPLETE = re.compile("ConnectionClosed|peer closed")
_ALERT = re.compile(r"_ALERT_(\w+)")
_ERRORS: list[tuple[type[Exception], ErrorCode]] = [
    (AddressDenied, ("destination-IP-prohibited", None)),
    (NameNotResolved, ("DNS-error", (None, None))),
    (httpcore.ConnectTimeout, ("connection-timeout", None)),
    (httpcore.ReadTimeout, ("connection-read-timeout", None)),
    (httpcore.WriteTimeout, ("connection-write-timeout", None)),
    (httpcore.PoolTimeout, ("connection-limit-reached", None)),
    (httpcore.ConnectError, ("connection-refused", None)),
    (h11.ProtocolError, ("HTTP-protocol-error", None)),
    (httpcore.NetworkError, ("connection-terminated", None)),
]


class BodyError(h11.LocalProtocolError, ConnectionError):
    """The guest did not write the declared body; `code` is the reason. Doors handle it as a disconnect."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code[0])
        self.code = code


_ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Errors of a connection that the peer closed. Python before 3.11.3 reports a TLS error."""


def error_code(error: Exception) -> ErrorCode:
    """Return the wasi:http error-code for a network error."""
    if isinstance(error, BodyError):
        return error.code
    if isinstance(error, h11.RemoteProtocolError) and _INCOMPLETE.search(str(error)):
        return ("HTTP-response-incomplete", None)
    if isinstance(error, httpcore.ConnectError):
        # httpcore reports a failed handshake as a failed connection; its context has the cause.
        hidden = error.__context__
        if isinstance(hidden, _ENDED):
            return ("connection-terminated", None)
        if isinstance(hidden, ssl.SSLError):
            if isinstance(hidden, ssl.SSLCertVerificationError):
                return ("TLS-certificate-error", None)
            alert = _ALERT.search(hidden.reason or "")
            if alert is None:
                return ("TLS-protocol-error", None)
            return ("TLS-alert-received", (None, alert[1].replace("_", " ").lower()))
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), ("internal-error", None))


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """The sender of requests (`project/resource`), its allowed origins, and its project."""

    owner: str
    egress: Egress
    project: str = ""


class Outbound(Protocol):
    """Answers requests of guests to other servers."""

    def fetch(
        self, policy: OutboundPolicy, run: RunState, request: OutgoingRequest, future: FutureResponse
    ) -> None:
        """Start a request. Raises `RequestRefused` for immediate failures."""

    async def aclose(self) -> None:
        """Close every connection."""


class OutboundHttp:
    """Connection pools of the engine, one per resource, so that resources do not wait for each other."""

    def __init__(self, resolve: Resolve | None = None, quotas: Quotas | None = None) -> None:
        """Without `resolve`, the operating system resolves names."""
        self._quotas = (quotas or Quotas()).active
        self._system = SystemResolver()
        self._resolve = resolve or self._system
        self._pools: dict[tuple[OutboundPolicy, str], ConnectionPool] = {}
        self._tls: asyncio.Future[ssl.SSLContext] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def _connection(
        self, policy: OutboundPolicy, origin: Origin, seconds: float
    ) -> AsyncIterator[Connection]:
        tls = await self._tls_context() if origin.scheme == "https" else None
        pool = self._pools.get((policy, origin.scheme))
        if pool is None:
            pool = ConnectionPool(Dialer(policy.egress, self._resolve), tls)
            self._pools[policy, origin.scheme] = pool
        try:
            async with pool.connection(origin, seconds) as connection:
                yield connection
        finally:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the pools without exchanges, as those of earlier deployments."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        for key, pool in list(self._pools.items()):
            if not pool.exchanges and pool.used_at <= oldest:
                del self._pools[key]
                spawn(self._closing, pool.aclose())
        idle = [pool.used_at for pool in self._pools.values() if not pool.exchanges]
        self._timer = loop.call_at(min(idle) + IDLE_SECONDS, self._close_idle) if idle else None

    async def _tls_context(self) -> ssl.SSLContext:
        """Return the trusted certificates, loaded once in a thread because that takes about 50 ms."""
        if self._tls is None:
            self._tls = asyncio.ensure_future(asyncio.to_thread(httpcore.default_ssl_context))
        return await asyncio.shield(self._tls)

    async def aclose(self) -> None:
        if self._tls is not None:
            await asyncio.wait([self._tls])
        if self._timer is not None:
            self._timer.cancel()
        for pool in self._pools.values():
            await pool.aclose()
        if self._closing:
            await asyncio.wait(self._closing)
        self._system.close()

    def fetch(
        self, policy: OutboundPolicy, run: RunState, request: OutgoingRequest, future: FutureResponse
    ) -> None:
        """Start a request. Called from guest code, so it only queues an action for the event loop.

        Raises `RequestRefused` for immediate failures.
        """
        origin = origin_of(request)
        call = run.request.begin_call("fetch", f"{method_of(request)[:MAX_METHOD_CHARS]} {origin}")
        if not policy.egress.allows(origin):
            if call is not None:
                call.end(0, "denied")
            _report_denial(run, policy, origin, "")
            raise RequestRefused("HTTP-request-denied")
        quota = self._quotas.get(policy.project)
        if quota is not None and quota.egress is not None and not quota.egress.allow():
            if call is not None:
                call.end(0, "quota-exceeded")
            if (grant := quota.report("egress")) is not None:
                run.notice("WARN", f"a call to {origin} was refused: {quota.message('egress')}", grant)
            raise RequestRefused("connection-limit-reached")

        def start() -> None:
            if future.result is not None:  # The guest already canceled it.
                if request.body is not None:
                    request.body.discard()
                return
            exchange = self._exchange(run, policy, origin, request, future=future, call=call)
            task = asyncio.get_running_loop().create_task(exchange)
            run.add_task(task)
            future.cancel = task.cancel

        run.on_loop(start)

    async def _exchange(
        self,
        run: RunState,
        policy: OutboundPolicy,
        origin: Origin,
        request: OutgoingRequest,
        *,
        future: FutureResponse,
        call: Call | None,
    ) -> None:
        connecting.set(call)
        body, flow = request.body, InputBuffer(account=run)
        between = _seconds(request.between_bytes_timeout, READ_TIMEOUT_NS)
        try:
            head = _request_head(run, origin, request, call)
            connect = _seconds(request.connect_timeout, CONNECT_TIMEOUT_NS)
            async with self._connection(policy, origin, connect) as connection, asyncio.TaskGroup() as tasks:
                await connection.send(head, between)
                sending = tasks.create_task(_send_body(run, connection, body, between, call))
                response = await connection.head(_seconds(request.first_byte_timeout, READ_TIMEOUT_NS))
                fields = response.headers.raw_items()
                if call is not None and call.details is not None:
                    call.status = response.status_code
                    if call.capture is not None:
                        call.capture.response = response.status_code, fields
                    call.details["first_byte_ns"] = perf_counter_ns() - call.start_ns
                headers = [(name.lower(), value) for name, value in fields]
                visible = [item for item in headers if item[0] not in FORBIDDEN]
                future.settle(run, IncomingResponse(response.status_code, visible, flow))
                await receive(run, connection.body(between), flow, call)
                if not connection.answered:  # The server does not read the rest of the request.
                    sending.cancel()
        except* NETWORK_ERRORS as errors:
            error = errors.exceptions[0]
            assert isinstance(error, NETWORK_ERRORS)
            if isinstance(error, AddressDenied):
                _report_denial(run, policy, origin, str(error.address))
            code = error_code(error)
            if call is not None:
                call.end(0, code[0])
            future.settle(run, code)
            if not flow.ended:
                flow.end(code)
        finally:
            if body is not None:  # No more is sent; a waiting writer must not block.
                body.discard()
            run.wake()


async def _send_body(
    run: RunState, connection: Connection, body: OutputBuffer | None, seconds: float, call: Call | None
) -> None:
    try:
        if body is not None:
            async for chunk in upload(run, body, call):
                await connection.send(h11.Data(data=chunk), seconds)
        await connection.send(h11.EndOfMessage(), seconds)
    except httpcore.WriteError:
        return  # A server may answer, and close the connection, without reading the body.


async def receive(
    run: RunState, chunks: AsyncIterable[bytes], flow: InputBuffer, call: Call | None = None
) -> None:
    """Copy a response body to the buffer, with backpressure from the guest."""
    room = asyncio.Event()
    flow.on_drained = lambda: run.on_loop(room.set)
    try:
        async for chunk in chunks:
            if run.held_bytes > MAX_HELD_BYTES:
                flow.end(("connection-limit-reached", None))
                break
            flow.feed(chunk)
            _count(call, "bytes_in", chunk)
            run.wake()
            while flow.full:
                room.clear()
                await room.wait()
        if call is not None:  # Before the end of the body, after which the run may end.
            call.end()
            if (capture := call.capture) is not None and call.details is not None:
                sizes = len(capture.sent), len(capture.received)
                capture.complete = sizes == (call.details["bytes_out"], call.details["bytes_in"])
        if not flow.ended:
            flow.end()
    except NETWORK_ERRORS as error:
        code = error_code(error)
        if call is not None:
            call.end(0, code[0])
        flow.end(code)
    run.wake()


def _count(call: Call | None, name: str, data: bytes) -> None:
    """Add the length of data to a number of the details of a call, and data to its capture."""
    if call is not None and call.details is not None:
        call.details[name] = int(call.details[name]) + len(data)
    if call is not None and (capture := call.capture) is not None:
        if name == "bytes_in":
            capture.received = capture.cut(capture.received + data)
        else:
            capture.sent = capture.cut(capture.sent + data)


def _report_denial(run: RunState, policy: OutboundPolicy, origin: Origin, address: str) -> None:
    """Queue a notice of a denial, with the `svc.toml` line that allows the request."""
    leads, added = "", origin
    if address:
        leads = f": {origin.host} leads to {address}, which is not an address of the Internet"
        added = Origin(origin.scheme, address, origin.port)
    line = policy.egress.line_adding(str(added))
    text = f"a call to {origin} was denied{leads}; to allow it, add to this resource in svc.toml: {line}"
    run.notice("WARN", text, Grant.egress(policy.owner.partition("/")[2], str(added), line))


def origin_of(request: OutgoingRequest) -> Origin:
    """Return a request's origin. Raises `RequestRefused` if its authority is invalid."""
    try:
        return parse_authority(request.scheme or "https", request.authority)
    except ValueError:
        raise RequestRefused("HTTP-request-URI-invalid") from None


def method_of(request: OutgoingRequest) -> str:
    """Return the method. Raises `RequestRefused` for CONNECT."""
    method = request.method
    if method.upper() == "CONNECT":
        raise RequestRefused("HTTP-request-method-invalid")
    return method


def target_of(request: OutgoingRequest) -> str:
    """Return path and query; the path starts with `/`."""
    target = request.path or "/"
    return f"/{target}" if target.startswith("?") else target


def _request_head(run: RunState, origin: Origin, request: OutgoingRequest, call: Call | None) -> h11.Request:
    """Return the head to send, with the trace context of its span unless the guest sets another."""
    method, target = method_of(request), target_of(request)
    headers = [item for item in request.headers if item[0] not in FORBIDDEN]
    fields = dict(reversed(headers))
    parent, trace = run.request.env.get("TRACEPARENT", ""), run.request.trace
    if call is not None:
        call.details = {"bytes_out": 0, "bytes_in": 0}
        if call.capture is not None:
            call.capture.complete = False
            call.capture.request, call.capture.time_ns = (
                (method, f"{origin}{target}", headers.copy()),
                time_ns(),
            )
        if b"traceparent" in fields:
            call.parent_id = fields[b"traceparent"].decode("latin-1")[36:52]  # 00-<trace>-<span>-<flags>
        elif trace is not None and parent:
            headers.append((b"traceparent", traceparent(parent, trace, call).encode()))
    if request.body is not None and b"content-length" not in fields:
        headers.append((b"transfer-encoding", b"chunked"))
    return h11.Request(method=method, target=target, headers=[(b"host", origin.authority.encode()), *headers])


def _seconds(nanoseconds: int | None, default: int) -> float:
    """Return a timeout in seconds; 0 expires at once."""
    return (default if nanoseconds is None else max(1, nanoseconds)) / 1e9


async def upload(run: RunState, body: OutputBuffer, call: Call | None = None) -> AsyncIterator[bytes]:
    """Yield the request body as the guest writes it. Raises `BodyError` if the guest does not finish it."""
    changed = asyncio.Event()
    body.on_change = lambda: run.on_loop(changed.set)
    while True:
        changed.clear()
        data = body.drain()
        if data:
            run.wake()
            _count(call, "bytes_out", data)
            yield data
        elif body.finished:
            return
        elif body.broken is not None:
            unfinished = ("HTTP-protocol-error", None)
            raise BodyError(body.broken if isinstance(body.broken, tuple) else unfinished)
        else:
            await changed.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResponse:
    """A request to another server, and its complete response."""

    method: str
    url: str
    status: int
    headers: tuple[tuple[str, bytes], ...]
    body: bytes


class RecordedOutbound:
    """Answers each request by the next recorded response for its method and URL, and denies others.

    Without one for the exact URL, a response for another query of the same URL is used.
    """

    def __init__(self, responses: Sequence[RecordedResponse]) -> None:
        self._responses = list(responses)

    def fetch(
        self, policy: OutboundPolicy, run: RunState, request: OutgoingRequest, future: FutureResponse
    ) -> None:
        """Answer a request. Raises `RequestRefused` if no response was recorded."""
        method, url = method_of(request), f"{origin_of(request)}{target_of(request)}"
        call = run.request.begin_call("fetch", f"{method} {origin_of(request)}")
        same = [each for each in self._responses if each.method == method]
        exact = (each for each in same if each.url == url)
        similar = (each for each in same if each.url.partition("?")[0] == url.partition("?")[0])
        response = next(exact, None) or next(similar, None)
        if response is None:
            if call is not None:
                call.end(0, "denied")
            run.notice(
                "WARN", f"a call to {url.partition('?')[0]} was denied: no response of it was recorded"
            )
            raise RequestRefused("HTTP-request-denied")
        self._responses.remove(response)
        if request.body is not None:  # A waiting writer must not block.
            request.body.discard()
        flow = InputBuffer(account=run)
        flow.feed(response.body)
        flow.end()
        if call is not None:
            call.end(response.status)
        fields = [(name.encode(), value) for name, value in response.headers]
        headers = [item for item in fields if item[0] not in FORBIDDEN]
        answer = IncomingResponse(response.status, headers, flow)
        run.on_loop(lambda: future.settle(run, answer))

    async def aclose(self) -> None:
        """Return at once: there are no connections."""
