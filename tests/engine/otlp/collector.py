"""A collector: a server of OTLP/HTTP that parses what it gets with the messages of opentelemetry-proto."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.waiting import until

_MESSAGES = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class TestCollector(ThreadingHTTPServer):
    """Stores the parts of what it gets with the name of their service. `status` is that of its answers."""

    __test__ = False
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.spans: list[tuple[str, Span]] = []
        self.logs: list[tuple[str, LogRecord]] = []
        self.metrics: list[tuple[str, Metric]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.body = b""
        self.requests = 0

    def take(self, message: Any) -> None:
        if isinstance(message, ExportTraceServiceRequest):
            for spans in message.resource_spans:
                name = service_of(spans.resource)
                self.spans += [(name, span) for scope in spans.scope_spans for span in scope.spans]
        elif isinstance(message, ExportLogsServiceRequest):
            for logs in message.resource_logs:
                name = service_of(logs.resource)
                self.logs += [(name, each) for scope in logs.scope_logs for each in scope.log_records]
        else:
            for metrics in message.resource_metrics:
                name = service_of(metrics.resource)
                self.metrics += [(name, each) for scope in metrics.scope_metrics for each in scope.metrics]

    def span(self, name: str) -> Span:
        """Return the span of a name, once it has arrived."""
        until(lambda: any(span.name == name for _, span in self.spans))
        return next(span for _, span in self.spans if span.name == name)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TestCollector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        self.server.requests += 1
        self.server.headers.append({key.lower(): value for key, value in self.headers.items()})
        if self.server.status == 200:
            self.server.take(_MESSAGES[self.path].FromString(data))
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: Any) -> None: ...


def service_of(resource: Any) -> str:
    """Return the `service.name` of a resource."""
    return str(attributes_of(resource)["service.name"])


def attributes_of(part: Any) -> dict[str, Any]:
    """Return the attributes of a part of a message."""
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in part.attributes}


@contextmanager
def collecting() -> Iterator[TestCollector]:
    """Run a collector."""
    with TestCollector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
