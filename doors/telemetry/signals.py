"""The OTLP signals that the telemetry Door accepts."""

from typing import Literal

from doors.telemetry.record import GuestRecord
from doors.telemetry.span import GuestSpan

Signal = Literal["logs", "traces"]
Item = GuestRecord | GuestSpan
SIGNALS: dict[str, Signal] = {"/v1/logs": "logs", "/v1/traces": "traces"}
"""Signals by path."""
MESSAGES: dict[Signal, str] = {"logs": "ExportLogsServiceRequest", "traces": "ExportTraceServiceRequest"}
"""Names of the messages that requests have."""
REJECTED: dict[Signal, str] = {"logs": "rejectedLogRecords", "traces": "rejectedSpans"}
"""Names of the number of rejected parts in responses."""
