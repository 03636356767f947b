"""Counters and histograms of each resource since the start of the service, in memory.

Each record of a request is added when it is written to the timeline. The cost of a record is constant.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

from engine.measurement import MeasurementBatch, Series, SeriesTable
from engine.timeline.record import Record, RequestRecord, StructuredRecord
from engine.trace import Call

MAX_RESOURCES = 5_000
"""Maximum resources with metrics of their own; further ones are counted as one, `OTHER`."""
OTHER = "_other"
"""Project and resource of the resources above the maximum."""
DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of durations."""
MEMORY_BOUNDS = tuple(float(1 << shift) for shift in range(20, 31))
"""Upper bounds of memory: 1 MiB to 1 GiB."""
_NANOSECONDS = tuple(int(bound * 1e9) for bound in DURATION_BOUNDS)
_CLASSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx", "6xx", "7xx", "8xx", "9xx")
"""Classes of status codes. Servers that guests call may send any of three digits."""


class Histogram:
    """Numbers of values up to each bound, the last above all bounds, and the sum of the values."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def add(self, value: int) -> None:
        """Add a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def __deepcopy__(self, memo: object) -> "Histogram":
        copied = Histogram(self._bounds)
        copied.counts, copied.sum = self.counts.copy(), self.sum
        return copied


class ResourceMeter:
    """The counters of a resource. Times are in nanoseconds, sizes in bytes.

    `requests` are by class of their status, `failures` by error code, `fetches` by class or error code, and
    `records` by severity. `sql_failures` are statements that failed.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "compute_ns",
        "failures",
        "fetch_bytes_in",
        "fetch_bytes_out",
        "fetch_times",
        "fetches",
        "memory",
        "records",
        "requests",
        "sql_failures",
        "sql_times",
        "times",
        "waits",
    )

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.fetches: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self.times, self.waits, self.sql_times, self.fetch_times = (Histogram(_NANOSECONDS) for _ in range(4))
        self.memory = Histogram(MEMORY_BOUNDS)
        self.compute_ns = self.bytes_in = self.bytes_out = 0
        self.fetch_bytes_in = self.fetch_bytes_out = self.sql_failures = 0

    def add(self, record: RequestRecord) -> None:
        """Add a request and its calls."""
        self.requests[_CLASSES[record.status // 100]] += 1
        self.times.add(record.wall_ns)
        self.compute_ns += record.compute_ns
        self.bytes_in += record.bytes_in
        self.bytes_out += record.bytes_out
        if record.code:
            self.failures[record.code] += 1
        if record.peak_memory is not None:
            self.memory.add(record.peak_memory)
        for call in record.calls:
            self._add_call(call)

    def _add_call(self, call: Call) -> None:
        if call.kind == "sql":
            self.sql_times.add(call.wall_ns)
            self.sql_failures += bool(call.code)
        elif call.kind == "wait":
            self.waits.add(call.wall_ns)
        elif call.kind == "fetch":
            self.fetches[call.code or _CLASSES[call.status // 100]] += 1
            self.fetch_times.add(call.wall_ns)
            details = call.details or {}
            self.fetch_bytes_in += int(details.get("bytes_in", 0))
            self.fetch_bytes_out += int(details.get("bytes_out", 0))


class ServiceMeter:
    """The counters of all resources; call it from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: dict[tuple[str, str], ResourceMeter] = {}
        self._series: dict[str, SeriesTable] = {}

    def follower(self, project: str) -> Callable[[Record], None]:
        """Return a follower of a project's timeline."""

        def follow(record: Record) -> None:
            kind = type(record)
            if kind is RequestRecord:
                with self._lock:
                    self._meter(project, record.resource).add(record)  # type: ignore[arg-type]
            elif kind is StructuredRecord:
                with self._lock:
                    self._meter(project, record.resource).records[record.severity] += 1  # type: ignore[union-attr]

        return follow

    def measurer(self, project: str) -> Callable[[MeasurementBatch], None]:
        """Return a listener to the measurements of a project's code."""

        def measure(batch: MeasurementBatch) -> None:
            with self._lock:
                self._series.setdefault(project, SeriesTable()).add(batch)

        return measure

    def series(self, project: str | None = None) -> dict[str, list[Series]]:
        """Return the series of the code by project, of one project or of all, as they are now."""
        with self._lock:
            tables = [each for each in self._series.items() if project in (None, each[0])]
        copied = {}
        for name, table in tables:
            with self._lock:
                copied[name] = [replace(each) for each in table.series()]
        return copied

    def _meter(self, project: str, resource: str) -> ResourceMeter:
        meter = self._meters.get((project, resource))
        if meter is None:
            key = (project, resource) if len(self._meters) < MAX_RESOURCES else (OTHER, OTHER)
            meter = self._meters.setdefault(key, ResourceMeter())
        return meter

    def read(self, project: str | None = None) -> dict[tuple[str, str], ResourceMeter]:
        """Return the counters by project and resource, of one project or of all, as they are now."""
        with self._lock:
            meters = [each for each in self._meters.items() if project in (None, each[0][0])]
        copied = {}
        for key, meter in meters:  # One by one: requests do not wait for all.
            with self._lock:
                copied[key] = deepcopy(meter)
        return copied
