"""A timeline to read: a million records of every kind at once, and others at a steady rate, as a process.

The recorder of `svc dev` writes the later records.
"""

import sys
import time
from pathlib import Path

from engine.timeline.bus import TimelineBus
from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.recorder import Retention, TimelineRecorder, TimelineStore

BATCH = 10_000
TICK = 0.05
NEW = 1 << 30
"""Number of the first of those that come."""
RETENTION = Retention(max_bytes=1 << 30)
"""Enough for a million records and those that come."""


def record(number: int, now_ns: int) -> Record:
    """Return one of them; every 200th request fails, and says more than one line."""
    request = f"01J{number // 4:023}"
    kind = number % 4
    if kind == 0:
        return LineRecord(now_ns, request, "api", "stdout", f"took {number % 90} ms")
    if kind == 1:
        attributes = {"id": str(number), "mood": "sunny"}
        return StructuredRecord(
            time_ns=now_ns,
            request_id=request,
            trace_id="",
            span_id="",
            resource="api",
            severity="INFO",
            body=f"entry {number} saved",
            attributes=attributes,
        )
    root = kind == 3
    code = "run-limit" if number % 800 == 3 else ""
    span = f"{number:016x}"
    name = "web" if root else "api"
    return RequestRecord(
        now_ns,
        request,
        trace_id="0" * 32,
        span_id=span,
        parent="",
        resource=name,
        method="POST",
        target=f"/api/entries?n={number}",
        status=504 if code else 201,
        code=code,
        detail="run limit of 30 s reached" if code else "",
        wall_ns=8_200_000,
        compute_ns=5_100_000,
        peak_memory=3 << 20,
        bytes_in=120,
        bytes_out=4_000,
        root=root,
    )


def fill(root: Path, count: int) -> None:
    """Fill a project's timeline with `count` records of the last hour."""
    path = timeline_path(root)
    store = TimelineStore(path, RETENTION)
    now = time.time_ns()
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        store.append([record(each, now - (count - each) * 3_600_000) for each in numbers], now)
    store.close()


def write(root: Path, rate: float, seconds: float) -> None:
    """Write records at a steady rate, in twenty bursts a second."""
    timeline = TimelineBus()
    recorder = TimelineRecorder(
        timeline_path(root), timeline, lambda error: print(error, file=sys.stderr), retention=RETENTION
    )
    began, done = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(int(passed * rate) - done):
            timeline.append(record(NEW + done, time.time_ns()))
            done += 1
        time.sleep(TICK)
    recorder.close()
    print(done)


if __name__ == "__main__":
    write(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
