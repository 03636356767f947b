"""The gateway: routing, mounts, request ids, spans, recording, and the platform's own responses."""

import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Set
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

from engine.cancellation import cancel
from engine.door import Session
from engine.errors import SvcError
from engine.gateway.client_address import CLIENT_FIELDS, OWN_PREFIX, client_fields
from engine.gateway.door_delivery import PUBLIC, Delivery, DoorsOf, public_door
from engine.gateway.on_demand import OnDemand
from engine.gateway.problem import DebugDetail, send_problem, wants_page
from engine.gateway.routes import (
    BuiltVersion,
    DynamicVersion,
    Endpoint,
    NotReady,
    Outdated,
    RouteTable,
    host_name,
)
from engine.gateway.static.responder import FileChanged, StaticResponder
from engine.gateway.traced_exchange import HOP_BY_HOP, SpanContext, TracedExchange
from engine.grant import Grant
from engine.http.exchange import MAX_BODY, Exchange, Headers
from engine.quota import Quotas, RateLimit
from engine.timeline.bus import TimelineBus
from engine.timeline.record import INTERRUPTED, LineRecord, PlatformRecord, RequestRecord
from engine.timeline.recording import Redaction
from engine.trace import RequestTrace, call_id
from engine.wasm.execution.run_state import GuestRequest, RunReport

MAX_DEPTH = 8
LINES_SHOWN = 60
FIRST_BUILD_SECONDS = 30.0
"""How long a request waits for the first build of its resource in development."""
PAGE_AFTER_SECONDS = 2.0
"""How long a page load in a browser waits for the first build before it gets a page that reloads itself."""
SAVE_SECONDS = 3.0
"""How long after a save requests wait for its build. Then the version before answers."""
MAX_RECORDED_PER_SECOND = 50
MAX_DENIALS_PER_SECOND = 10
"""Maximum number of events about missing mounts."""
_END_TO_END = frozenset(
    {b"host", b"content-length", b"content-type", b"authorization", b"cookie", b"origin"}
    | {b"x-real-ip", b"x-forwarded-host"}
)
"""Fields that a client cannot remove by naming them in Connection: a proxy may have set them."""
_HIDDEN_FROM_GUESTS = HOP_BY_HOP | CLIENT_FIELDS | {b"x-request-id", b"traceparent"}
_OWN_CHARS = len(OWN_PREFIX)
_UNBUILT = (Outdated, NotReady)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of a gateway.

    `dev` adds details for developers to error responses. `max_body` is the maximum size of a request body in
    bytes. `record` records requests of projects that do not forbid it. `scheme` is that of a reverse proxy
    that terminates TLS; if empty, the scheme of the connection is used. `time_shift_ns` is added to the wall
    clock of guests, for replays.
    """

    dev: bool = False
    max_body: int = MAX_BODY
    record: bool = False
    scheme: str = ""
    time_shift_ns: int = 0


@dataclass(slots=True)
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


class Gateway:
    """Handles every request of the service."""

    def __init__(
        self,
        routes: Callable[[], RouteTable],
        timeline_of: Callable[[str], TimelineBus],
        settings: GatewaySettings,
        quotas: Quotas | None = None,
        doors_of: DoorsOf = lambda project: {},
    ) -> None:
        """`routes` is called once a request for the current table.

        `timeline_of` returns the timeline of a project; the empty name stands for the service itself.
        `doors_of` returns the Doors that answer clients of a project.
        """
        self._routes = routes
        self._timeline_of = timeline_of
        self._settings = settings
        self._doors_of = doors_of
        self._quotas = (quotas or Quotas()).active
        self._recordings = RateLimit(MAX_RECORDED_PER_SECOND)
        self._denials = RateLimit(MAX_DENIALS_PER_SECOND)

    async def __call__(self, exchange: Exchange) -> None:
        traced = TracedExchange(exchange, self._settings.scheme)
        try:
            outcome = await self._serve(traced)
        except Exception:
            text = traceback.format_exc()
            self._timeline_of("").append(PlatformRecord(time.time_ns(), "", "ERROR", text, traced.id))
            if traced.started:
                traced.abort()
            else:
                await self._problem(traced, "internal")
            return
        finally:
            if traced.recording is not None:
                self._timeline_of(traced.recording.project).recordings.append(traced.recording)
        if outcome.aborted:
            traced.abort()

    async def _serve(self, exchange: TracedExchange) -> _SpanOutcome:
        span = SpanContext.from_header(exchange.header(b"traceparent"))
        routes = self._routes()
        resource = exchange.request.resource
        endpoint = routes.resource(*resource) if resource else routes.match_host(exchange.authority)
        if endpoint is None or not exchange.request.path.startswith(("/", "*")):
            debug = None
            if endpoint is None and exchange.authority and not host_name(exchange.authority):
                return await self._answer(exchange, span, None, self._problem(exchange, "invalid-host"))
            if endpoint is None and self._settings.dev:
                debug = DebugDetail(
                    f"No resource has this host. Available: {', '.join(sorted(routes.hosts))}"
                )
            problem = self._problem(exchange, "not-found" if endpoint else "unknown-host", debug)
            return await self._answer(exchange, span, None, problem)
        exchange.project = endpoint.project
        quota = self._quotas.get(endpoint.project)
        if quota is not None and quota.requests is not None and not quota.requests.allow():
            message = quota.message("requests")
            self._report(exchange, endpoint, message, quota.report("requests"))
            problem = self._problem(exchange, "quota-exceeded", detail=message)
            return await self._answer(exchange, span, endpoint, problem)
        exchange.hsts = endpoint.hsts
        if endpoint.canonical and exchange.target.startswith("/"):
            return await self._answer(exchange, span, endpoint, _redirect(exchange, endpoint))
        recorded = endpoint.recorded
        if self._settings.record and recorded is not None and self._recordings.allow():
            exchange.record(endpoint.project, recorded)
        return await self._span(exchange, endpoint, span, 0)

    def _report(self, exchange: TracedExchange, endpoint: Endpoint, text: str, grant: Grant | None) -> None:
        """Record that something was denied, unless there is nothing to report."""
        if grant is not None:
            record = PlatformRecord(time.time_ns(), endpoint.name, "WARN", text, exchange.id, grant=grant)
            self._timeline_of(endpoint.project).append(record)

    def _report_unmounted(self, exchange: TracedExchange, endpoint: Endpoint) -> None:
        """Record that a path without a response starts with the name of a resource that no mount leads to."""
        name = endpoint.unmounted(exchange.request.path)
        if name and self._denials.allow():
            grant = Grant.mount(endpoint.name, f"/{name}/*", name)
            text = (
                f"no mount of {endpoint.name} has the path {exchange.request.path}; to route it to {name},"
                f" add to the mounts of this resource in svc.toml: {grant.line}"
            )
            self._report(exchange, endpoint, text, grant)

    async def _answer(
        self,
        exchange: TracedExchange,
        span: SpanContext,
        endpoint: Endpoint | None,
        answering: Awaitable[_SpanOutcome],
    ) -> _SpanOutcome:
        """Send and record a response instead of serving the request."""
        started, now = time.perf_counter_ns(), time.time_ns()
        outcome = await answering
        self._record(exchange, span, endpoint, time_ns=now, started_ns=started, outcome=outcome, root=True)
        return outcome

    async def _span(
        self, exchange: TracedExchange, endpoint: Endpoint, span: SpanContext, depth: int
    ) -> _SpanOutcome:
        """Handle a request at a resource, or pass it to a mount or the fallback; append one record."""
        started, now = time.perf_counter_ns(), time.time_ns()
        outcome = _ABORTED_BY_SHUTDOWN
        try:
            path = exchange.request.path
            target = None if path.startswith(PUBLIC) else endpoint.match_mount(path)
            response = await self._respond(exchange, endpoint, span) if target is None else None
            if response is not None:
                outcome = response
                if outcome.status == 404:
                    self._report_unmounted(exchange, endpoint)
            elif depth + 1 >= MAX_DEPTH:
                outcome = await self._problem(exchange, "mount-loop")
            else:
                target = target or endpoint.fallback
                assert target is not None
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
        self, exchange: TracedExchange, endpoint: Endpoint, span: SpanContext
    ) -> _SpanOutcome | None:
        """Respond with a resource's version; return `None`, with nothing sent, if its fallback shall."""
        client = exchange.request.client
        if endpoint.rate is not None and client is not None:
            retry_after = -(-endpoint.rate.take(client[0]) // 10**9)
            if retry_after:
                return await self._problem(exchange, "rate-limited", retry_after=retry_after)
        if exchange.request.path.startswith(PUBLIC):
            door = public_door(self._doors_of(endpoint.project), exchange.request.path)
            if door is not None:
                return await self._deliver(Delivery(exchange, endpoint, span, door).answer())
        version = endpoint.version
        used = version if isinstance(version, OnDemand) else None
        try:
            if isinstance(version, OnDemand):
                version = version.begin() or await self._load(version, exchange)
            if isinstance(version, _UNBUILT):
                version = await self._wait_for_build(version, exchange)
                if isinstance(version, NotReady):
                    building, error = version.first_build is not None, version.error
                    detail = f"{endpoint.name} is being built for the first time" if building else ""
                    detail = error.public_message if error is not None else detail
                    debug = DebugDetail(detail, error=error, building=building)
                    return await self._problem(exchange, "not-ready", debug, detail=detail)
            if isinstance(version, StaticResponder):
                response = await version.respond(exchange)
                if response is not None:
                    return _SpanOutcome(response[0], bytes_out=response[1])
                door = self._doors_of(endpoint.project).get("files") if endpoint.files else None
                if door is not None:
                    sending = Delivery(exchange, endpoint, span, door).send_static(version.rules)
                    if (sent := await self._deliver(sending)) is not None:
                        return sent
                return await self._problem(exchange, "not-found") if endpoint.fallback is None else None
            return await self._run(exchange, endpoint, version, span)
        except FileChanged as error:
            return _SpanOutcome(200, "file-changed", detail=str(error), aborted=True)
        finally:
            if used is not None:
                used.end()

    async def _load(self, version: OnDemand, exchange: TracedExchange) -> BuiltVersion:
        exchange.trace = RequestTrace()
        with exchange.trace.measure("wait", "load the resource"):
            try:
                return await version.wait()
            except SvcError as error:
                return NotReady(error)

    async def _wait_for_build(
        self, version: BuiltVersion | Outdated, exchange: TracedExchange
    ) -> BuiltVersion:
        """Return the version of the build of a save, or of the first one, once it has ended or takes long."""
        if isinstance(version, Outdated):
            seconds = max(0.0, version.build.began + SAVE_SECONDS - time.monotonic())
            exchange.trace = RequestTrace()
            with exchange.trace.measure("build", "wait for the build of a save"):
                version = await version.build.wait(seconds) or version.version
        if isinstance(version, NotReady) and version.first_build is not None:
            request = exchange.request
            page = request.method in ("GET", "HEAD") and wants_page(request.headers)
            seconds = PAGE_AFTER_SECONDS if page else FIRST_BUILD_SECONDS
            exchange.trace = RequestTrace()
            with exchange.trace.measure("build", "wait for the first build"):
                version = await version.first_build.wait(seconds) or version
        return version

    async def _run(
        self, exchange: TracedExchange, endpoint: Endpoint, version: DynamicVersion, span: SpanContext
    ) -> _SpanOutcome:
        length = exchange.header(b"content-length")
        if length is not None and length.isdigit() and int(length) > self._settings.max_body:
            return await self._problem(exchange, "body-too-large")
        lines: deque[str] = deque(maxlen=LINES_SHOWN)
        resource, project = endpoint.name, endpoint.project

        def on_line(stream: Any, text: str) -> None:
            lines.append(text)
            ids = {"trace_id": span.trace_id, "span_id": span.span_id}
            record = LineRecord(time.time_ns(), exchange.id, resource, stream, text, **ids)
            self._timeline_of(project).append(record)

        def on_notice(level: Any, text: str, grant: Grant | None) -> None:
            lines.append(text)
            record = PlatformRecord(time.time_ns(), resource, level, text, exchange.id, grant=grant)
            self._timeline_of(project).append(record)

        traceparent = span.traceparent
        headers = guest_headers(exchange.request.headers)
        if exchange.request.resource is not None:
            headers += [field for field in exchange.request.headers if field[0].startswith(OWN_PREFIX)]
        client = exchange.request.client
        headers += client_fields(client[0] if client else None, exchange.scheme)
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
            trace=exchange.call_trace(),
            time_shift_ns=self._settings.time_shift_ns,
            session=exchange.begin_session() if endpoint.sessions else Session(),
        )
        exchange.deliver = partial(self._deliver_named, exchange, endpoint, span)
        try:
            report = await version.run(request)
            exchange.trace = request.trace
            outcome = _outcome_of(report)
            if report.status is None and report.outcome not in INTERRUPTED:
                debug = DebugDetail(report.detail, tuple(lines))
                problem = await self._problem(exchange, report.outcome, debug)
                outcome = replace(outcome, status=problem.status, bytes_out=problem.bytes_out)
            if exchange.delivery is None:
                return outcome
            sent: _SpanOutcome = await exchange.delivery
        finally:
            exchange.deliver = None  # It refers to the exchange, and only garbage collection frees a cycle.
            if exchange.delivery is not None:
                await cancel([exchange.delivery])
        return replace(sent, code=sent.code or outcome.code, report=report, bytes_in=report.bytes_in)

    async def _deliver_named(
        self, exchange: TracedExchange, endpoint: Endpoint, span: SpanContext, *head: Any
    ) -> _SpanOutcome | None:
        """Send the file that the head of a guest's response names."""
        if (door := self._doors_of(endpoint.project).get("files")) is None:  # The project was removed.
            return await self._problem(exchange, "not-found")
        return await self._deliver(Delivery(exchange, endpoint, span, door).send_named(head))

    async def _deliver(
        self, sending: Coroutine[Any, Any, tuple[int, int, int] | None]
    ) -> _SpanOutcome | None:
        """Return the outcome of a response that a Door sends; abort it if bytes are corrupt or missing."""
        try:
            sent = await sending
        except SvcError as error:
            return _SpanOutcome(500, error.code, detail=error.public_message, aborted=True)
        return sent and _SpanOutcome(sent[0], bytes_out=sent[1], bytes_in=sent[2])

    async def _problem(
        self,
        exchange: TracedExchange,
        code: str,
        debug: DebugDetail | None = None,
        *,
        detail: str = "",
        retry_after: int = 1,
    ) -> _SpanOutcome:
        """Send the response for an error code. `detail` is for the record, `debug` for developers."""
        shown = debug if self._settings.dev else None
        status, size = await send_problem(exchange, code, exchange.id, shown, retry_after=retry_after)
        return _SpanOutcome(status, code, detail=detail, bytes_out=size)

    def _record(
        self,
        exchange: TracedExchange,
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
        if trace is not None and exchange.recording is not None:
            exchange.recording.captures = [
                (call_id(span.span_id, index), capture) for index, capture in trace.take_captures()
            ]
        self._timeline_of(endpoint.project if endpoint else "").append(
            RequestRecord(
                time_ns=time_ns,
                request_id=exchange.id,
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent=span.parent,
                resource=endpoint.name if endpoint else "",
                method=exchange.request.method,
                target=Redaction((endpoint and endpoint.recorded) or frozenset()).target(exchange.target),
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


async def _redirect(exchange: TracedExchange, endpoint: Endpoint) -> _SpanOutcome:
    """Redirect a request to the canonical domain of its resource, at the same port."""
    _, colon, port = exchange.authority.partition(":")
    location = f"{exchange.scheme}://{endpoint.canonical}{colon}{port}{exchange.target}"
    await exchange.send_head(308, [(b"location", location.encode("latin-1")), (b"content-length", b"0")])
    await exchange.send_body(b"", end=True)
    return _SpanOutcome(308, detail=f"redirected to {endpoint.canonical}")


def _outcome_of(report: RunReport) -> _SpanOutcome:
    """Return the outcome of the span of a run, with the status 499 if it sent no head."""
    code = "" if report.outcome == "ok" else report.outcome
    incomplete = code in INTERRUPTED if report.status is None else not report.complete
    return _SpanOutcome(
        report.status or 499,
        code,
        detail=report.detail,
        report=report,
        bytes_in=report.bytes_in,
        bytes_out=report.bytes_out,
        aborted=bool(code) and incomplete,
    )


def guest_headers(headers: Headers) -> Headers:
    """Return the header fields that a guest receives: without hop-by-hop fields and those that svc sets."""
    dropped: Set[bytes] = _HIDDEN_FROM_GUESTS
    for name, value in headers:
        if name == b"connection":
            dropped = dropped | ({token.strip().lower() for token in value.split(b",")} - _END_TO_END)
    return [
        field
        for field in headers
        if (field[0] not in dropped and field[0][:_OWN_CHARS] != OWN_PREFIX)
        or field[0] == b"transfer-encoding"
    ]
