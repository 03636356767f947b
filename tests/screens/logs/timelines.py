"""Timelines with many records, written like the recorder does."""

import time
from pathlib import Path

from engine.timeline.database import timeline_path
from engine.timeline.record import StructuredRecord
from engine.timeline.recorder import TimelineStore


def record(number: int) -> StructuredRecord:
    """Return a record; every thousandth is an error."""
    severity = "INFO" if number % 1000 else "ERROR"
    attributes = {"id": str(number)}
    return StructuredRecord(
        time_ns=time.time_ns(),
        request_id="",
        trace_id="",
        span_id="",
        resource="docs",
        severity=severity,
        body=f"said {number}",
        attributes=attributes,
    )


def fill(root: Path, count: int, first: int = 0) -> None:
    """Append records to the timeline of a project."""
    store = TimelineStore(timeline_path(root))
    for start in range(first, first + count, 10_000):
        numbers = range(start, min(start + 10_000, first + count))
        store.append([record(number) for number in numbers], time.time_ns())
    store.close()
