"""The gateway: routing, mounts, request ids, spans, recording, and the platform's own responses."""

import time
import traceback
from collections import deque
from collections.abc import Callable, Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from engine.gateway.error_page import DebugDetail
from engine.gateway.problem import send_problem, wants_page
from engine.gateway.routes import DynamicVersion, Endpoint, NotReady, RouteTable
from engine.gateway.static.body import FileChanged
from engine.gateway.tracing import SpanContext, request_id
from engine.http.exchange import MAX_BODY, Exchange, Headers
from engine.http.unsent import ResponseBytes
from engine.quota import Quotas, RateLimit
from engine.timeline.bus import TimelineBus
from engine.timeline.record import LineRecord, PlatformRecord, RequestRecord
from engine.timeline.recording import Recording
from engine.trace import RequestTrace
from engine.wasm.execution.request import GuestRequest, RunReport

MAX_DEPTH = 8
LINES_SHOWN = 60
FIRST_BUILD_SECONDS = 30.0
"""How long a request waits for the first build of its Resource in development."""
PAGE_AFTER_SECONDS = 2.0
"""How long a page load in a browser waits for the first build before it gets a page that reloads itself."""
MAX_RECORDED_PER_SECOND = 50
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"trailer"}
)
_END_TO_END = frozenset(
    {b"host", b"content-length", b"content-type", b"authorization", b"cookie", b"origin", b"forwarded"}
    | {b"x-real-ip", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"}
)
"""Fields that a client cannot remove by naming them in Connection: a proxy may have set them."""
_HIDDEN_FROM_GUESTS = _HOP_BY_HOP | {b"x-request-id", b"traceparent"}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of a gateway.

    `dev` adds details for developers to error responses. `max_body` is the maximum size of a request body in
    bytes. `record` records requests of Projects that do not forbid it. `scheme` is that of a reverse proxy
    that terminates TLS; if empty, the scheme of the connection is used.
    """

    dev: bool = False
    max_body: int = MAX_BODY
    record: bool = False
    scheme: str = ""


@dataclass(frozen=True, slots=True)
class _SpanOutcome:
    """The result of a span. With `aborted`, the exchange is closed with an incomplete response."""

    status: int
    code: str = ""
    _: KW_ONLY
    detail: str = ""
    report: RunReport | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    aborted: bool = False


_ABORTED_BY_SHUTDOWN = _SpanOutcome(499, "stopping", detail="the service is stopping", aborted=True)


class _TracedExchange:
    """Wraps an exchange: adds the request id to the response and records messages if `recording` is set."""

    def __init__(self, exchange: Exchange, scheme: str) -> None:
        self._exchange = exchange
        self.request = request = exchange.request
        self.body = exchange.body
        self.disconnected = exchange.disconnected
        self.id = request.id or request_id()
        self.scheme = scheme or request.scheme
        self.target = f"{request.path}?{request.query.decode('latin-1')}" if request.query else request.path
        self.header_map = dict(reversed(request.headers))
        """Header names to their first values."""
        self.authority = self.header_map.get(b"host", b"").decode("latin-1")
        self.recording: Recording | None = None
        self.trace: RequestTrace | None = None
        self.started = False

    def record(self, project: str, redact: frozenset[str]) -> None:
        """Record the request and its response."""
        self.recording = recording = Recording(
            project=project,
            request_id=self.id,
            time_ns=time.time_ns(),
            method=self.request.method,
            scheme=self.scheme,
            authority=self.authority,
            target=self.target,
            headers=self.request.headers,
            redact=redact,
        )
        body = self.body
        if body.exhausted:
            recording.body.ended = True
        else:
            body.observer = lambda part: recording.body.add(part, ended=body.exhausted)

    @property
    def project(self) -> str:
        """The project that the unsent bytes of the response count for."""
        return self._exchange.project

    @project.setter
    def project(self, name: str) -> None:
        self._exchange.project = name

    @property
    def unsent(self) -> ResponseBytes:
        """The unsent bytes of the response."""
        return self._exchange.unsent

    async def send_head(self, status: int, headers: Headers) -> None:
        """Send the status and the header fields, with `x-request-id` and without hop-by-hop fields."""
        headers = [field for field in headers if field[0] not in _HOP_BY_HOP and field[0] != b"x-request-id"]
        headers.append((b"x-request-id", self.id.encode()))
        self.started = True
        if self.recording is not None:
            self.recording.status, self.recording.response_headers = status, headers
        await self._exchange.send_head(status, headers)

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Send a part of the body."""
        if self.recording is not None:
            self.recording.response.add(data, ended=end)
        await self._exchange.send_body(data, end=end)

    def abort(self) -> None:
        """End the exchange with an incomplete response."""
        self._exchange.abort()

    def header(self, name: bytes) -> str | None:
        """Return the first value of a header field."""
        value = self.header_map.get(name)
        return None if value is None else value.decode("latin-1")


class Gateway:
    """Handles every request of the service."""

    def __init__(
        self,
        routes: Callable[[], RouteTable],
        timeline_of: Callable[[str], TimelineBus],
        settings: GatewaySettings,
        quotas: Quotas | None = None,
    ) -> None:
        """`routes` is called once a request for the current table.

        `timeline_of` returns the timeline of a Project; the empty name stands for the service itself.
        """
        self._routes = routes
        self._timeline_of = timeline_of
        self._settings = settings
        self._quotas = (quotas or Quotas()).active
        self._recordings = RateLimit(MAX_RECORDED_PER_SECOND)

    async def __call__(self, exchange: Exchange) -> None:
        """Handle one exchange."""
        traced = _TracedExchange(exchange, self._settings.scheme)
        try:
            outcome = await self._serve(traced)
        except Exception:
            await self._internal_error(traced)
            return
        finally:
            if traced.recording is not None:
                self._timeline_of(traced.recording.project).publish_recording(traced.recording)
        if outcome.aborted:
            traced.abort()

    async def _internal_error(self, exchange: _TracedExchange) -> None:
        """Respond to an error of the service itself; the timeline gets the traceback."""
        text = traceback.format_exc()
        self._timeline_of("").append(PlatformRecord(time.time_ns(), "", "ERROR", text, exchange.id))
        if exchange.started:
            exchange.abort()
        else:
            await self._problem(exchange, "internal", None)

    async def _serve(self, exchange: _TracedExchange) -> _SpanOutcome:
        span = SpanContext.from_header(exchange.header(b"traceparent"))
        endpoint = self._routes().match_host(exchange.authority)
        if endpoint is None or not exchange.request.path.startswith(("/", "*")):
            return await self._refuse(exchange, span, None, "not-found")
        exchange.project = endpoint.project
        quota = self._quotas.get(endpoint.project)
        if quota is not None and quota.requests is not None and not quota.requests.allow():
            return await self._refuse(exchange, span, endpoint, "quota-exceeded", quota.message("requests"))
        recorded = endpoint.recorded
        if self._settings.record and recorded is not None and self._recordings.allow():
            exchange.record(endpoint.project, recorded)
        return await self._span(exchange, endpoint, span, 0)

    async def _refuse(
        self,
        exchange: _TracedExchange,
        span: SpanContext,
        endpoint: Endpoint | None,
        code: str,
        detail: str = "",
    ) -> _SpanOutcome:
        """Send and record a problem instead of serving the request."""
        started, now = time.perf_counter_ns(), time.time_ns()
        status, size = await self._problem(exchange, code, None)
        outcome = _SpanOutcome(status, code, detail=detail, bytes_out=size)
        self._record(exchange, span, endpoint, time_ns=now, started_ns=started, outcome=outcome, root=True)
        return outcome

    async def _span(
        self, exchange: _TracedExchange, endpoint: Endpoint, span: SpanContext, depth: int
    ) -> _SpanOutcome:
        """Handle a request at a Resource, or pass it to the target of a matching mount; append one record."""
        started, now = time.perf_counter_ns(), time.time_ns()
        outcome = _ABORTED_BY_SHUTDOWN
        try:
            target = endpoint.match_mount(exchange.request.path)
            if target is None:
                outcome = await self._respond(exchange, endpoint, span)
            elif depth + 1 >= MAX_DEPTH:
                status, size = await self._problem(exchange, "mount-loop", None)
                outcome = _SpanOutcome(status, "mount-loop", bytes_out=size)
            else:
                inner = await self._span(exchange, target, span.child(), depth + 1)
                outcome = replace(inner, detail="", report=None)
        except Exception:
            outcome = _SpanOutcome(500, "internal")
            raise
        finally:
            root = depth == 0
            self._record(
                exchange, span, endpoint, time_ns=now, started_ns=started, outcome=outcome, root=root
            )
        return outcome

    async def _respond(
        self, exchange: _TracedExchange, endpoint: Endpoint, span: SpanContext
    ) -> _SpanOutcome:
        version = endpoint.version
        if isinstance(version, NotReady) and version.first_build is not None:
            seconds = PAGE_AFTER_SECONDS if _navigates(exchange) else FIRST_BUILD_SECONDS
            exchange.trace = RequestTrace()
            with exchange.trace.measure("build", "wait for the first build"):
                version = await version.first_build.wait(seconds) or version
            if isinstance(version, NotReady) and version.first_build is not None:
                building = f"{endpoint.name} is being built for the first time"
                debug = DebugDetail(building, building=True)
                status, size = await self._problem(exchange, "not-ready", debug)
                return _SpanOutcome(status, "not-ready", detail=building, bytes_out=size)
        if isinstance(version, NotReady):
            detail = version.error.public_message if version.error else ""
            debug = DebugDetail(detail, error=version.error)
            status, size = await self._problem(exchange, "not-ready", debug)
            return _SpanOutcome(status, "not-ready", detail=detail, bytes_out=size)
        if hasattr(version, "respond"):
            try:
                response = await version.respond(exchange)
            except FileChanged as error:
                return _SpanOutcome(200, "file-changed", detail=str(error), aborted=True)
            if response is None:
                status, size = await self._problem(exchange, "not-found", None)
                return _SpanOutcome(status, "not-found", bytes_out=size)
            return _SpanOutcome(response[0], bytes_out=response[1])
        return await self._run(exchange, endpoint, version, span)

    async def _run(
        self, exchange: _TracedExchange, endpoint: Endpoint, version: DynamicVersion, span: SpanContext
    ) -> _SpanOutcome:
        length = exchange.header(b"content-length")
        if length is not None and length.isdigit() and int(length) > self._settings.max_body:
            status, size = await self._problem(exchange, "body-too-large", None)
            return _SpanOutcome(status, "body-too-large", bytes_out=size)
        lines: deque[str] = deque(maxlen=LINES_SHOWN)
        resource, timeline = endpoint.name, self._timeline_of(endpoint.project)

        def on_line(stream: Any, text: str) -> None:
            lines.append(text)
            timeline.append(LineRecord(time.time_ns(), exchange.id, resource, stream, text))

        def on_notice(level: Any, text: str) -> None:
            lines.append(text)
            timeline.append(PlatformRecord(time.time_ns(), resource, level, text, exchange.id))

        traceparent = span.traceparent
        headers = guest_headers(exchange.request.headers)
        headers.append((b"traceparent", traceparent.encode()))
        request = GuestRequest(
            exchange=exchange,
            method=exchange.request.method,
            scheme=exchange.scheme,
            authority=exchange.authority,
            target=exchange.target,
            headers=headers,
            env={"SVC_REQUEST_ID": exchange.id, "TRACEPARENT": traceparent},
            max_body=self._settings.max_body,
            on_line=on_line,
            on_notice=on_notice,
            trace=exchange.trace,
        )
        report = await version.run(request)
        exchange.trace = request.trace
        return await self._finish_run(exchange, report, tuple(lines))

    async def _finish_run(
        self, exchange: _TracedExchange, report: RunReport, lines: tuple[str, ...]
    ) -> _SpanOutcome:
        """Send an error response for a run that sent no head, and return the outcome of the span."""
        code = "" if report.outcome == "ok" else report.outcome
        if report.status is not None:
            aborted = bool(code) and not report.complete
            return _SpanOutcome(
                report.status,
                code,
                detail=report.detail,
                report=report,
                bytes_in=report.bytes_in,
                bytes_out=report.bytes_out,
                aborted=aborted,
            )
        outcome = _SpanOutcome(499, code, detail=report.detail, report=report, bytes_in=report.bytes_in)
        if code in ("aborted", "client-gone", "stopping"):
            return replace(outcome, aborted=True)
        status, size = await self._problem(exchange, code, DebugDetail(report.detail, lines))
        return replace(outcome, status=status, bytes_out=size)

    async def _problem(
        self, exchange: _TracedExchange, code: str, debug: DebugDetail | None
    ) -> tuple[int, int]:
        return await send_problem(
            exchange,
            code,
            exchange.id,
            html=wants_page(exchange.request.headers),
            debug=debug if self._settings.dev else None,
        )

    def _record(
        self,
        exchange: _TracedExchange,
        span: SpanContext,
        endpoint: Endpoint | None,
        *,
        time_ns: int,
        started_ns: int,
        outcome: _SpanOutcome,
        root: bool,
    ) -> None:
        report, trace = outcome.report, exchange.trace
        exchange.trace = None  # The spans of mounts, which end later, have no calls.
        self._timeline_of(endpoint.project if endpoint else "").append(
            RequestRecord(
                time_ns=time_ns,
                request_id=exchange.id,
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent=span.parent,
                resource=endpoint.name if endpoint else "",
                method=exchange.request.method,
                target=exchange.target,
                status=outcome.status,
                code=outcome.code,
                detail=outcome.detail,
                calls=trace.finish(started_ns, span.span_id) if trace is not None else (),
                calls_omitted=trace.omitted if trace is not None else 0,
                wall_ns=time.perf_counter_ns() - started_ns,
                compute_ns=report.compute_ns if report else 0,
                peak_memory=report.peak_memory if report else None,
                bytes_in=outcome.bytes_in,
                bytes_out=outcome.bytes_out,
                root=root,
            )
        )


def _navigates(exchange: Exchange) -> bool:
    """Return whether the request is a page load by a browser."""
    return exchange.request.method in ("GET", "HEAD") and wants_page(exchange.request.headers)


def guest_headers(headers: Headers) -> Headers:
    """Return the header fields that a guest receives: without hop-by-hop fields and those that svc sets."""
    dropped: Set[bytes] = _HIDDEN_FROM_GUESTS
    for name, value in headers:
        if name == b"connection":
            dropped = dropped | ({token.strip().lower() for token in value.split(b",")} - _END_TO_END)
    passed = [field for field in headers if field[0] not in dropped]
    passed += [field for field in headers if field[0] == b"transfer-encoding"]
    return passed
