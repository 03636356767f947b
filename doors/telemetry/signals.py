"""The OTLP signals that the telemetry Door accepts."""

from typing import Literal

from doors.telemetry.metric import GuestMetric
from doors.telemetry.record import GuestRecord
from doors.telemetry.span import GuestSpan

Signal = Literal["logs", "traces", "metrics"]
Item = GuestRecord | GuestSpan | GuestMetric
SIGNALS: dict[str, Signal] = {
    "/v1/logs": "logs",
    "/v1/traces": "traces",
    "/v1/metrics": "metrics",
    "/": "logs",
}
"""Signals by path. An exporter of logs may use the address of the Door as it is."""
MESSAGES: dict[Signal, str] = {
    "logs": "ExportLogsServiceRequest",
    "traces": "ExportTraceServiceRequest",
    "metrics": "ExportMetricsServiceRequest",
}
"""Names of the messages that requests have."""
REJECTED: dict[Signal, str] = {
    "logs": "rejectedLogRecords",
    "traces": "rejectedSpans",
    "metrics": "rejectedDataPoints",
}
"""Names of the number of rejected parts in responses."""
