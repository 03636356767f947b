"""Sending to one collector by the OTLP/HTTP exporters of the OpenTelemetry SDK: values and sessions.

Ids are those of the timeline. Attributes have the names of OpenTelemetry's semantic conventions, or begin
with `svc.`. Sessions bound responses, and for projects apply the address rules of `egress`. The session of a
project ignores the environment of the service, which may have headers, certificates and proxies of its
operator. It connects to the address that was checked, so a later answer of the name server changes nothing.
"""

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal

import requests
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

from engine.manifest.egress import Collector, Egress
from engine.metrics.families import Distribution, Family, Labels
from engine.timeline.record import (
    SEVERITY_NUMBERS,
    LineRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    encodable,
    failed,
    level,
)
from engine.trace import Call, span_ids
from engine.wasm.outbound.connections import AddressDenied, permitted

MAX_RESPONSE_BYTES = 64 << 10
"""Maximum bytes of a response that are read."""
RESPONSE_SECONDS = 10.0
"""Maximum time to read the body of a response."""
ATTEMPT_SECONDS = 5.0
"""Maximum time to connect to an address."""
_OWN_HEADERS = frozenset({"content-type", "content-encoding", "user-agent"})
"""Headers of the SDK that a project's session sends. Others come from the environment."""


class CollectorSession(requests.Session):
    """A session whose `status` is that of its last response, 0 without one; `error` says what failed."""

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__()
        self.status, self.error = 0, ""
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request. Raises what `requests` raises."""
        try:
            response = super().request(method, url, *args, **options)
        except (requests.RequestException, OSError) as error:
            self.status, self.error = 0, _reason(error)
            raise
        self.status, self.error = response.status_code, f"status {response.status_code}"
        return response


class ProjectSession(CollectorSession):
    """A session for the collector that a project names, and the headers that it sends to it."""

    def __init__(self, collector: Collector, headers: Mapping[str, str]) -> None:
        super().__init__(_CheckedAdapter(Egress((collector.origin,))))
        self._own_headers = headers
        self.trust_env = False

    def request(
        self, method: Any, url: Any, *args: Any, headers: Mapping[str, Any] | None = None, **options: Any
    ) -> requests.Response:
        """Send a request without what the environment of the service adds to it."""
        self.verify, self.cert = True, None  # The SDK sets both by environment variables.
        own = {key: value for key, value in (headers or {}).items() if key.lower() in _OWN_HEADERS}
        return super().request(method, url, *args, headers={**own, **self._own_headers}, **options)


class _BoundedAdapter(HTTPAdapter):
    """Reads a bounded part of a response, in bounded time."""

    def send(self, request: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request, and return the response with a body of at most `MAX_RESPONSE_BYTES`."""
        response = super().send(request, *args, **options | {"stream": True})
        raw, body, deadline = response.raw, bytearray(), time.monotonic() + RESPONSE_SECONDS
        try:
            while len(body) < MAX_RESPONSE_BYTES and time.monotonic() < deadline:
                part = raw.read1(4096)
                if not part:
                    raw.release_conn()
                    break
                body += part
            else:
                raw.close()
        except BaseException:
            raw.close()
            raise
        response.raw = BytesIO(body[:MAX_RESPONSE_BYTES])
        return response


class _CheckedAdapter(_BoundedAdapter):
    """Connects to addresses that `egress` permits."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Create the pools, with connections that check addresses."""
        super().init_poolmanager(*args, **options)
        connect = {"_new_conn": lambda connection: _connected(connection, self._egress)}
        self.poolmanager.pool_classes_by_scheme = {
            scheme: type("CheckedPool", (pool,), {"ConnectionCls": type("Checked", (connection,), connect)})
            for scheme, pool, connection in (
                ("http", HTTPConnectionPool, HTTPConnection),
                ("https", HTTPSConnectionPool, HTTPSConnection),
            )
        }


def _connected(connection: HTTPConnection, egress: Egress) -> socket.socket:
    """Resolve the host of a connection, and connect to the first permitted address that answers."""
    host, port = connection.host.strip("[]"), connection.port or connection.default_port
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NameResolutionError(host, connection, socket.gaierror(error.errno, error.strerror)) from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    try:
        allowed = permitted(egress, host, port, addresses)
    except AddressDenied as error:
        raise NewConnectionError(connection, f"{host} has the private address {error.address}") from None
    failure: OSError = OSError("no address")
    for address in allowed:
        try:
            return create_connection((address, port), ATTEMPT_SECONDS, None, connection.socket_options)
        except OSError as error:
            failure = error
    raise NewConnectionError(connection, str(failure)) from failure


def _reason(error: BaseException) -> str:
    """Return the text of the innermost cause of an error."""
    cause = error
    for _ in range(10):
        context = None if cause.__suppress_context__ else cause.__context__
        inner = getattr(cause, "reason", None) or cause.__cause__ or context
        if not isinstance(inner, BaseException):
            inner = next((each for each in cause.args if isinstance(each, BaseException)), None)
        if inner is None:
            break
        cause = inner
    return (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:200]


_Owner = tuple[str, str]


def metrics_data(families: Sequence[Family], started_ns: int, now_ns: int) -> sdk.MetricsData:
    """Return the metrics by resource. Counters began at `started_ns`; the values are those of `now_ns`."""
    owners: dict[_Owner, list[sdk.Metric]] = {}
    for family in families:
        points: dict[_Owner, list[tuple[Labels, float | Distribution]]] = {}
        for labels, value in family.points:
            owner = labels.get("project", ""), labels.get("resource", "")
            points.setdefault(owner, []).append((labels, value))
        for owner, of_owner in points.items():
            owners.setdefault(owner, []).append(_metric(family, of_owner, started_ns, now_ns))
    return sdk.MetricsData(
        [
            sdk.ResourceMetrics(resource_of(*owner), [sdk.ScopeMetrics(SCOPE, metrics, "")], "")
            for owner, metrics in owners.items()
        ]
    )


def _metric(
    family: Family, points: list[tuple[Labels, float | Distribution]], started_ns: int, now_ns: int
) -> sdk.Metric:
    data: Any
    if family.kind == "histogram":
        unknown: Any = None  # Minimum and maximum are not recorded.
        distributions = [
            sdk.HistogramDataPoint(
                _attributes(labels),
                started_ns,
                now_ns,
                sum(value.counts),
                value.sum,
                value.counts,
                value.bounds,
                unknown,
                unknown,
            )
            for labels, value in points
            if isinstance(value, Distribution)
        ]
        data = sdk.Histogram(distributions, sdk.AggregationTemporality.CUMULATIVE)
    else:
        numbers = [
            sdk.NumberDataPoint(
                _attributes(labels), 0 if family.kind == "gauge" else started_ns, now_ns, value
            )
            for labels, value in points
            if not isinstance(value, Distribution)
        ]
        if family.kind == "gauge":
            data = sdk.Gauge(numbers)
        else:
            data = sdk.Sum(numbers, sdk.AggregationTemporality.CUMULATIVE, family.kind == "counter")
    return sdk.Metric(family.name, family.help, family.unit, data)


def _attributes(labels: Labels) -> dict[str, str]:
    return {key: text for key, text in labels.items() if key not in ("project", "resource")}


SCOPE = InstrumentationScope("svc")
SERVICE = "svc"
"""`service.name` of records that belong to no project."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {name.lower(): kind for name, kind in SpanKind.__members__.items()}
_STATED = frozenset({"span.kind", "otel.status_description"})
"""Attributes of the code's spans that are fields of OTLP."""
_UNSET = Status(StatusCode.UNSET)


@lru_cache(maxsize=1024)
def resource_of(project: str, resource: str) -> Resource:
    """Return the OpenTelemetry resource of a resource of a project; both may be empty."""
    name = "/".join(filter(None, (project, resource))) or SERVICE
    names = {"service.name": name, "svc.project": project, "svc.resource": resource}
    return Resource({key: value for key, value in names.items() if value})


def spans(project: str, record: RequestRecord) -> Iterator[ReadableSpan]:
    """Yield the span of a request, and those of its calls."""
    trace_id = int(record.trace_id, 16)
    resource = resource_of(project, record.resource)
    own = _context(trace_id, record.span_id)
    attributes: dict[str, Any] = {
        "http.request.method": record.method,
        "url.path": record.target.partition("?")[0],
        "url.query": record.target.partition("?")[2],
        "http.response.status_code": record.status,
        "http.request.body.size": record.bytes_in,
        "http.response.body.size": record.bytes_out,
        "error.type": record.code,
        "svc.request_id": record.request_id,
        "svc.compute_ns": record.compute_ns,
        "svc.peak_memory": record.peak_memory,
        "svc.calls_omitted": record.calls_omitted or None,
    }
    yield ReadableSpan(
        f"{record.method} {record.resource}".rstrip(),
        own,
        _context(trace_id, record.parent, is_remote=record.root) if record.parent else None,
        resource,
        _clean(attributes),
        kind=SpanKind.SERVER,
        status=_status(record.detail or record.code) if failed(record) else _UNSET,
        start_time=record.time_ns,
        end_time=record.time_ns + record.wall_ns,
        instrumentation_scope=SCOPE,
    )
    ids = span_ids(record.span_id, record.calls)
    for call, span_id in zip(record.calls, ids, strict=True):
        parent = own if call.parent < 0 else _context(trace_id, ids[call.parent])
        yield _span_of_call(record, call, _context(trace_id, span_id), parent, resource)


def log_record(project: str, record: Record) -> ReadableLogRecord:
    """Return the log record of a record that is not a request."""
    severity, context = level(record), Context()
    attributes: dict[str, Any] = {"svc.request_id": getattr(record, "request_id", "")}
    if isinstance(record, StructuredRecord):
        attributes |= record.attributes
        body = record.body
    else:
        body = record.text  # type: ignore[union-attr]
        if isinstance(record, LineRecord):
            attributes["log.iostream"] = record.stream
    if isinstance(record, (StructuredRecord, LineRecord)) and record.trace_id and record.span_id:
        span = NonRecordingSpan(_context(int(record.trace_id, 16), record.span_id))
        context = set_span_in_context(span, context)
    converted = LogRecord(
        timestamp=record.time_ns,
        observed_timestamp=record.time_ns,
        context=context,
        severity_text=severity,
        severity_number=SeverityNumber(SEVERITY_NUMBERS[severity]),
        body=encodable(body),
        attributes=_clean(attributes),
    )
    return ReadableLogRecord(converted, resource_of(project, record.resource), SCOPE)


def _span_of_call(
    record: RequestRecord, call: Call, context: SpanContext, parent: SpanContext, resource: Resource
) -> ReadableSpan:
    details: dict[str, Any] = dict(call.details or {})
    name, kind, description = call.name, SpanKind.INTERNAL, call.code
    attributes: dict[str, Any]
    if call.kind == "span":
        kind = _KINDS.get(str(details.get("span.kind", "")), kind)
        description = str(details.get("otel.status_description", ""))
        attributes = {key: value for key, value in details.items() if key not in _STATED}
    else:
        attributes = {f"svc.{key}": value for key, value in details.items()}
        attributes["error.type"] = call.code
    if call.kind == "sql":
        words = call.name.split(None, 1)
        name, kind = words[0].upper() if words else "SQL", SpanKind.CLIENT
        attributes |= {"db.system.name": "sqlite", "db.query.text": call.name}
    elif call.kind == "fetch":
        method, _, origin = call.name.partition(" ")
        kind = SpanKind.CLIENT
        attributes |= {"http.request.method": method, "server.address": origin.rpartition("://")[2]}
    if call.status:
        attributes["http.response.status_code"] = call.status
    start_ns = record.time_ns + call.start_ns
    return ReadableSpan(
        encodable(name),
        context,
        parent,
        resource,
        _clean(attributes),
        kind=kind,
        status=_status(description) if call.code else _UNSET,
        start_time=start_ns,
        end_time=start_ns + max(call.wall_ns, 0),
        instrumentation_scope=SCOPE,
    )


def _status(description: str) -> Status:
    return Status(StatusCode.ERROR, encodable(description) or None)


def _context(trace_id: int, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote, _SAMPLED)


def _clean(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that have a value, with texts that UTF-8 can encode."""
    return {
        encodable(key): encodable(value) if isinstance(value, str) else value
        for key, value in attributes.items()
        if value not in (None, "")
    }


Outcome = Literal["sent", "refused", "unavailable"]
"""`refused` data is not sent again: the collector does not accept it."""
REQUEST_SECONDS = 10.0
"""Maximum time of a request with the SDK's retries."""
_RETRIED = frozenset({0, 408, 429, 500, 502, 503, 504})
"""Statuses of collectors that may accept the same data later; 0 stands for no response."""


class Sender:
    """Sends records and metrics. With `headers`, the rules for a project's collector apply."""

    def __init__(self, collector: Collector, headers: Mapping[str, str] | None = None) -> None:
        # The SDK logs each failed request; the exporter reports them once a minute.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._session = (
            CollectorSession(_BoundedAdapter()) if headers is None else ProjectSession(collector, headers)
        )
        options: dict[str, Any] = {
            "timeout": REQUEST_SECONDS,
            "compression": Compression.Gzip,
            "session": self._session,
        }
        self._traces = OTLPSpanExporter(collector.url("traces"), **options)
        self._logs = OTLPLogExporter(collector.url("logs"), **options)
        self._metrics = OTLPMetricExporter(collector.url("metrics"), **options)

    @property
    def error(self) -> str:
        return self._session.error or "the data cannot be encoded"

    def traces(self, records: Sequence[tuple[str, Record]]) -> Outcome:
        """Send the spans of requests, given with their projects."""
        converted = [
            span
            for project, record in records
            if isinstance(record, RequestRecord)
            for span in spans(project, record)
        ]
        return self._outcome(lambda: self._traces.export(converted) is SpanExportResult.SUCCESS)

    def logs(self, records: Sequence[tuple[str, Record]]) -> Outcome:
        """Send the log records of records, given with their projects."""
        converted = [log_record(project, record) for project, record in records]
        return self._outcome(lambda: self._logs.export(converted) is LogRecordExportResult.SUCCESS)

    def metrics(self, families: Sequence[Family], started_ns: int, now_ns: int) -> Outcome:
        """Send metrics, counted since `started_ns`."""
        data = metrics_data(families, started_ns, now_ns)
        return self._outcome(lambda: self._metrics.export(data) is sdk.MetricExportResult.SUCCESS)

    def abort(self) -> None:
        """End a request's retries; call it from any thread, as the last method."""
        for exporter in (self._traces, self._logs, self._metrics):
            exporter.shutdown()

    def _outcome(self, export: Callable[[], bool]) -> Outcome:
        """Export, and return the outcome. Data that cannot be encoded makes no request."""
        self._session.status, self._session.error = 0, ""
        if export():
            return "sent"
        return "unavailable" if self._session.error and self._session.status in _RETRIED else "refused"
