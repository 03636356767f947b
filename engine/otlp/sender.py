"""The OTLP/HTTP exporters of the OpenTelemetry SDK for one collector. Use it on one thread."""

import logging
from collections.abc import Mapping, Sequence
from typing import Literal

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from engine.manifest.collector import Collector
from engine.metrics.families import Family
from engine.otlp.convert import log_record, metrics_data, spans
from engine.otlp.session import CollectorSession, ProjectSession
from engine.timeline.record import Record, RequestRecord

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
        self._session = CollectorSession() if headers is None else ProjectSession(collector, headers)
        self._traces = OTLPSpanExporter(
            collector.url("traces"),
            timeout=REQUEST_SECONDS,
            compression=Compression.Gzip,
            session=self._session,
        )
        self._logs = OTLPLogExporter(
            collector.url("logs"),
            timeout=REQUEST_SECONDS,
            compression=Compression.Gzip,
            session=self._session,
        )
        self._metrics = OTLPMetricExporter(
            collector.url("metrics"),
            timeout=REQUEST_SECONDS,
            compression=Compression.Gzip,
            session=self._session,
        )

    @property
    def error(self) -> str:
        """Reason of the last failure."""
        return self._session.error or "the data cannot be encoded"

    def traces(self, records: Sequence[tuple[str, Record]]) -> Outcome:
        """Send the spans of requests, given with their projects."""
        converted = [
            span
            for project, record in records
            if isinstance(record, RequestRecord)
            for span in spans(project, record)
        ]
        self._session.reset()
        return self._outcome(self._traces.export(converted) is SpanExportResult.SUCCESS)

    def logs(self, records: Sequence[tuple[str, Record]]) -> Outcome:
        """Send the log records of records, given with their projects."""
        converted = [log_record(project, record) for project, record in records]
        self._session.reset()
        return self._outcome(self._logs.export(converted) is LogRecordExportResult.SUCCESS)

    def metrics(self, families: Sequence[Family], started_ns: int, now_ns: int) -> Outcome:
        """Send metrics, counted since `started_ns`."""
        data = metrics_data(families, started_ns, now_ns)
        self._session.reset()
        return self._outcome(self._metrics.export(data) is MetricExportResult.SUCCESS)

    def abort(self) -> None:
        """End a request's retries; call it from any thread, as the last method."""
        for exporter in (self._traces, self._logs, self._metrics):
            exporter.shutdown()

    def _outcome(self, success: bool) -> Outcome:
        if success:
            return "sent"
        return "unavailable" if self._session.error and self._session.status in _RETRIED else "refused"
