"""The ASGI application: every request of the service takes its way through here, in one direction.

Owns routing, mounts, request ids, spans and the platform's answers. Files are `static.py`'s, guests are
the runner's; nothing here knows the web server, except that an exception out of `__call__` after the
response began must cut the connection (`engine/http/server.py` sees to it).
"""

import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from engine.gateway.problem import Insight, send_problem, wants_page
from engine.gateway.recording_limit import Capture
from engine.gateway.routes import DynamicVersion, Endpoint, NotReady, RouteTable
from engine.gateway.static.body import FileChanged
from engine.gateway.tracing import Trace, request_id
from engine.timeline.bus import TimelineBus
from engine.timeline.record import LineRecord, PlatformRecord, RequestRecord
from engine.timeline.recording import Recording
from engine.wasm.execution.request import Exchange, Headers, Listen, Receive, RunReport, Send

GONE = "svc.gone"
"""The ASGI extension that has a future which is done when the client has left."""
LISTEN = "svc.listen"
"""The ASGI extension that has `Exchange.listen`."""
REQUEST_ID = "svc.request-id"
"""The ASGI extension that has the id of a request of the service's own making."""
MAX_DEPTH = 8
MAX_BODY = 32 << 20
LINES_SHOWN = 60
FIRST_BUILD_SECONDS = 30.0
"""How long a request waits for the first build of its Resource, in development."""
PAGE_AFTER_SECONDS = 2.0
"""How long a browser that navigates waits before it gets a page that reloads itself."""
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"trailer"}
)
_NOT_FOR_GUESTS = _HOP_BY_HOP | {b"x-request-id", b"traceparent"}


class Cut(Exception):
    """The response can not be completed: the connection must end so that the client can tell."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """`dev` shows developers what went wrong; `max_body` is the most bytes a request may carry.

    With `record`, requests are recorded where their Project has nothing against it. `scheme` is how callers
    reach what is in front, where that has TLS; else the connection's own is.
    """

    dev: bool = False
    max_body: int = MAX_BODY
    record: bool = False
    scheme: str = ""


@dataclass(frozen=True, slots=True)
class _Result:
    """How a span ended."""

    status: int
    code: str = ""
    detail: str = ""
    report: RunReport | None = None
    bytes_out: int = 0
    cut: bool = False


_STOPPING = _Result(499, "stopping", "the service is stopping", cut=True)


class _Request:
    """One client request on its way through the spans that it makes."""

    __slots__ = (
        *(
            "_send",
            "authority",
            "fields",
            "gone",
            "has_body",
            "headers",
            "id",
            "listen",
            "method",
            "path",
            "query",
            "receive",
            "recording",
            "scheme",
        ),
        *("started", "table"),
    )

    def __init__(
        self, scope: dict[str, Any], receive: Receive, send: Send, table: RouteTable, scheme: str
    ) -> None:
        extensions = scope.get("extensions", {})
        self.id: str = extensions.get(REQUEST_ID) or request_id()
        self.method: str = scope["method"]
        self.scheme: str = scheme or scope["scheme"]
        self.path: str = scope["raw_path"].decode("ascii", errors="replace")
        self.query: bytes = scope["query_string"]
        self.headers: Headers = scope["headers"]
        self.fields = dict(reversed(self.headers))
        """The first value of each name."""
        self.authority = self.fields.get(b"host", b"").decode("latin-1")
        self.has_body = _has_body(scope["http_version"], self.fields)
        self.receive = receive
        self.gone = extensions.get(GONE)
        self.listen: Listen | None = extensions.get(LISTEN)
        self.table = table
        self.started = False
        self.recording: Recording | None = None
        self._send = send

    def record(self, project: str, redact: frozenset[str]) -> None:
        """Have this request and its response recorded, as they pass."""
        receive = self.receive
        self.recording = recording = Recording(
            *(project, self.id, time.time_ns(), self.method, self.scheme, self.authority, self.target),
            self.headers,
            redact,
        )

        async def received() -> dict[str, Any]:
            message = await receive()
            recording.add_request_message(message)
            return message

        if self.has_body:
            self.receive, self.listen = received, None
        else:
            recording.body.ended = True

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the response; the head gets the request's id."""
        if message["type"] == "http.response.start":
            kept = [h for h in message["headers"] if h[0] not in _HOP_BY_HOP and h[0] != b"x-request-id"]
            message = {**message, "headers": [*kept, (b"x-request-id", self.id.encode())]}
            self.started = True
        if self.recording is not None:
            self.recording.add_response_message(message)
        await self._send(message)

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query.decode('latin-1')}" if self.query else self.path

    def header(self, name: bytes) -> str | None:
        value = self.fields.get(name)
        return None if value is None else value.decode("latin-1")


class Gateway:
    """The service as an ASGI application."""

    def __init__(
        self,
        routes: Callable[[], RouteTable],
        timeline_of: Callable[[str], TimelineBus],
        settings: GatewaySettings,
    ) -> None:
        """`routes` is asked once a request for the table in force.

        `timeline_of` is asked for the timeline of a Project; the empty name stands for the service itself.
        """
        self._routes = routes
        self._timeline_of = timeline_of
        self._settings = settings
        self._capture = Capture()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one ASGI scope."""
        if scope["type"] == "http":
            request = _Request(scope, receive, send, self._routes(), self._settings.scheme)
            try:
                result = await self._serve(request)
            except Exception:
                await self._internal(request)
                return
            finally:
                if request.recording is not None:
                    self._timeline_of(request.recording.project).publish_recording(request.recording)
            if result.cut:
                raise Cut(result.code)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _internal(self, request: _Request) -> None:
        """Answer for a fault of this service itself; the timeline gets the traceback."""
        text = traceback.format_exc()
        self._timeline_of("").append(PlatformRecord(time.time_ns(), "", "ERROR", text, request.id))
        if request.started:
            raise Cut("internal")
        await self._problem(request, "internal", None)

    async def _serve(self, request: _Request) -> _Result:
        trace = Trace.begin(request.header(b"traceparent"))
        endpoint = request.table.find(request.authority)
        if endpoint is None:
            began, now = time.perf_counter_ns(), time.time_ns()
            status, size = await self._problem(request, "not-found", None)
            result = _Result(status, "not-found", bytes_out=size)
            self._record(request, trace, "", "", now, began, result, root=True)
            return result
        if self._settings.record and endpoint.recorded is not None and self._capture.due():
            request.record(endpoint.project, endpoint.recorded)
        return await self._span(request, endpoint, trace, 0)

    async def _span(self, request: _Request, endpoint: Endpoint, trace: Trace, depth: int) -> _Result:
        """Answer a request at one Resource, or hand it on; one record when it is over."""
        began, now = time.perf_counter_ns(), time.time_ns()
        result = _STOPPING
        try:
            target = endpoint.mounted(request.path)
            if target is None:
                result = await self._answer(request, endpoint, trace)
            elif depth + 1 >= MAX_DEPTH:
                status, size = await self._problem(request, "mount-loop", None)
                result = _Result(status, "mount-loop", bytes_out=size)
            else:
                inner = await self._span(request, target, trace.child(), depth + 1)
                result = _Result(inner.status, inner.code, bytes_out=inner.bytes_out, cut=inner.cut)
        except Exception:
            result = _Result(500, "internal")
            raise
        finally:
            self._record(request, trace, endpoint.project, endpoint.name, now, began, result, root=depth == 0)
        return result

    async def _answer(self, request: _Request, endpoint: Endpoint, trace: Trace) -> _Result:
        version = endpoint.version
        if isinstance(version, NotReady) and version.first_build is not None:
            seconds = PAGE_AFTER_SECONDS if _navigates(request) else FIRST_BUILD_SECONDS
            version = await version.first_build.wait(seconds) or version
        if isinstance(version, NotReady):
            if version.first_build is not None:
                building = f"{endpoint.name} is being built for the first time"
                status, size = await self._problem(request, "not-ready", Insight(building, building=True))
                return _Result(status, "not-ready", building, bytes_out=size)
            detail = version.error.public_message if version.error else ""
            status, size = await self._problem(request, "not-ready", Insight(detail, error=version.error))
            return _Result(status, "not-ready", detail, bytes_out=size)
        if hasattr(version, "respond"):
            try:
                sent = await version.respond(
                    request.method,
                    request.path,
                    request.query,
                    request.headers,
                    request.send,
                    request.receive,
                )
            except FileChanged as error:
                return _Result(200, "file-changed", str(error), cut=True)
            if sent is None:
                status, size = await self._problem(request, "not-found", None)
                return _Result(status, "not-found", bytes_out=size)
            return _Result(sent[0], bytes_out=sent[1])
        return await self._run(request, endpoint, version, trace)

    async def _run(
        self, request: _Request, endpoint: Endpoint, version: DynamicVersion, trace: Trace
    ) -> _Result:
        announced = request.header(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > self._settings.max_body:
            status, size = await self._problem(request, "body-too-large", None)
            return _Result(status, "body-too-large", bytes_out=size)
        lines: deque[str] = deque(maxlen=LINES_SHOWN)
        resource, timeline = endpoint.name, self._timeline_of(endpoint.project)

        def on_line(stream: Any, text: str) -> None:
            lines.append(text)
            timeline.append(LineRecord(time.time_ns(), request.id, resource, stream, text))

        def on_notice(level: Any, text: str) -> None:
            lines.append(text)
            timeline.append(PlatformRecord(time.time_ns(), resource, level, text, request.id))

        headers = guest_headers(request.headers)
        traceparent = trace.traceparent
        headers.append((b"traceparent", traceparent.encode()))
        exchange = Exchange(
            request.method,
            request.scheme,
            request.authority,
            request.target,
            headers,
            request.receive,
            request.send,
            {"SVC_REQUEST_ID": request.id, "TRACEPARENT": traceparent},
            on_line,
            self._settings.max_body,
            on_notice,
            request.has_body,
            request.gone,
            request.listen,
        )
        report = await version.run(exchange)
        return await self._conclude(request, report, tuple(lines))

    async def _conclude(self, request: _Request, report: RunReport, lines: tuple[str, ...]) -> _Result:
        """Turn a run's report into what the client is still owed."""
        code = "" if report.outcome == "ok" else report.outcome
        if report.status is not None:
            cut = bool(code) and not report.complete
            return _Result(report.status, code, report.detail, report, report.bytes_out, cut)
        if code in ("client-gone", "stopping"):
            return _Result(499, code, report.detail, report, cut=True)
        status, size = await self._problem(request, code, Insight(report.detail, lines))
        return _Result(status, code, report.detail, report, size)

    async def _problem(self, request: _Request, code: str, insight: Insight | None) -> tuple[int, int]:
        return await send_problem(
            code,
            request.id,
            html=wants_page(request.headers),
            head=request.method == "HEAD",
            insight=insight if self._settings.dev else None,
            send=request.send,
        )

    def _record(
        self,
        request: _Request,
        trace: Trace,
        project: str,
        resource: str,
        time_ns: int,
        began_ns: int,
        result: _Result,
        *,
        root: bool,
    ) -> None:
        report = result.report
        self._timeline_of(project).append(
            RequestRecord(
                time_ns,
                request.id,
                trace.trace_id,
                trace.span_id,
                trace.parent,
                resource,
                request.method,
                request.target,
                result.status,
                result.code,
                result.detail,
                time.perf_counter_ns() - began_ns,
                report.compute_ns if report else 0,
                report.peak_memory if report else None,
                report.bytes_in if report else 0,
                result.bytes_out,
                root,
            )
        )


def guest_headers(headers: Headers) -> Headers:
    """Return the header fields that a guest may see: none that belong to one connection."""
    dropped: Set[bytes] = _NOT_FOR_GUESTS
    for name, value in headers:
        if name == b"connection":
            dropped = dropped | {token.strip().lower() for token in value.split(b",")}
    kept = [field for field in headers if field[0] not in dropped]
    kept += [field for field in headers if field[0] == b"transfer-encoding"]
    return kept


def _navigates(request: _Request) -> bool:
    """Return whether a browser loads a page, which it can load again."""
    return request.method in ("GET", "HEAD") and wants_page(request.headers)


def _has_body(version: str, fields: Mapping[bytes, bytes]) -> bool:
    """Whether a body may follow a head: HTTP/2 tells by its frames only, where no length is given."""
    length = fields.get(b"content-length")
    if length is not None:
        return length != b"0"
    return version == "2" or b"transfer-encoding" in fields


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
