"""The metrics of the service and of guests: names, units and values, and their OpenMetrics text.

Counters and histograms of each resource are in memory since the start of the service. A record of a request
is added when it is written to the timeline, at a constant cost.
"""

import re
import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from engine.measurement import MeasurementBatch, MetricKind, Series, SeriesTable
from engine.timeline.record import Record, RequestRecord, StructuredRecord

MAX_RESOURCES = 5_000
"""Maximum resources with metrics of their own; further ones are counted as one, `OTHER`."""
MAX_WAITING = 100
"""Maximum records that are not yet counted."""
OTHER = "_other"
"""Project and resource of the resources above the maximum."""
DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of durations."""
MEMORY_BOUNDS = tuple(float(1 << shift) for shift in range(20, 31))
"""Upper bounds of memory: 1 MiB to 1 GiB."""
_COUNTED = (RequestRecord, StructuredRecord)
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
        self._records: deque[tuple[str, RequestRecord | StructuredRecord]] = deque()
        """Records with their projects, which are added together: that takes half of the time."""
        self._series: dict[str, SeriesTable] = {}

    def follower(self, project: str) -> Callable[[Record], None]:
        """Return a follower of a project's timeline."""

        def follow(record: Record) -> None:
            if isinstance(record, _COUNTED):
                self._records.append((project, record))
                if len(self._records) >= MAX_WAITING:
                    self._add_records()

        return follow

    def _add_records(self) -> None:
        with self._lock:
            for _ in range(len(self._records)):
                project, record = self._records.popleft()
                meter = self._meters.get((project, record.resource))
                if meter is None:
                    full = len(self._meters) >= MAX_RESOURCES
                    key = (OTHER, OTHER) if full else (project, record.resource)
                    meter = self._meters.setdefault(key, ResourceMeter())
                if isinstance(record, RequestRecord):
                    meter.add(record)
                else:
                    meter.records[record.severity] += 1

    def measurer(self, project: str) -> Callable[[MeasurementBatch], None]:
        """Return a listener to the measurements of a project's code."""

        def measure(batch: MeasurementBatch) -> None:
            with self._lock:
                self._series.setdefault(project, SeriesTable()).add(batch)

        return measure

    def remove(self, project: str) -> None:
        with self._lock:
            self._meters = {key: meter for key, meter in self._meters.items() if key[0] != project}
            self._series.pop(project, None)

    def series(self, project: str | None = None) -> dict[str, list[Series]]:
        """Return the series of the code by project, of one project or of all, as they are now."""
        with self._lock:
            tables = [each for each in self._series.items() if project in (None, each[0])]
        copied = {}
        for name, table in tables:
            with self._lock:
                copied[name] = [replace(each) for each in table.series()]
        return copied

    def read(self, project: str | None = None) -> dict[tuple[str, str], ResourceMeter]:
        """Return the counters by project and resource, of one project or of all, as they are now."""
        self._add_records()
        with self._lock:
            meters = [each for each in self._meters.items() if project in (None, each[0][0])]
        copied = {}
        for key, meter in meters:  # One by one: requests do not wait for all.
            with self._lock:
                copied[key] = deepcopy(meter)
        return copied


Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram: upper bounds, the number of values of each bucket and above all, and their sum."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. `name` has dots, as in OpenTelemetry; `unit` of a metric of svc is `s`, `By` or empty."""

    name: str
    kind: MetricKind
    unit: str
    help: str
    points: Sequence[tuple[Labels, float | Distribution]]


@dataclass(frozen=True, slots=True)
class PoolState:
    """The instances of a process: running requests and waiting requests by project."""

    running: Mapping[str, int]
    queued: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of the service now: its processes, and the memory in bytes that they use and may use."""

    pools: Sequence[PoolState] = ()
    memory_used: int = 0
    memory_budget: int = 0
    counters: Sequence[Family] = field(default=())


_HELP = {
    "svc.requests": "Requests by class of their status; a mounted resource counts its own.",
    "svc.request.failures": "Requests with an error code of svc.",
    "svc.request.duration": "Durations of requests.",
    "svc.request.compute": "CPU time of the code of requests.",
    "svc.request.memory": "Peak memory of requests.",
    "svc.request.received": "Bytes of request bodies.",
    "svc.request.sent": "Bytes of response bodies.",
    "svc.queue.wait": "Time that requests waited for an instance, of those that waited.",
    "svc.egress.requests": "Outgoing requests by class of their status, or error code.",
    "svc.egress.duration": "Durations of outgoing requests.",
    "svc.egress.received": "Bytes of the bodies of outgoing requests' responses.",
    "svc.egress.sent": "Bytes of the bodies of outgoing requests.",
    "svc.sql.duration": "Durations of SQL statements and batches.",
    "svc.sql.failures": "SQL statements and batches that failed.",
    "svc.log.records": "Log records of the code by severity.",
    "svc.instances": "Requests that run.",
    "svc.queued": "Requests that wait for an instance.",
    "svc.memory.used": "Memory of all processes of the service.",
    "svc.memory.budget": "Memory that all processes of the service may use.",
}


def families(meters: Mapping[tuple[str, str], ResourceMeter], state: ServiceState | None) -> list[Family]:
    """Return the metrics of these resources, and of the service with a state."""
    labeled = [({"project": project, "resource": name}, meter) for (project, name), meter in meters.items()]
    each = [
        _counters("svc.requests", "status", ((on, m.requests) for on, m in labeled)),
        _counters("svc.request.failures", "code", ((on, m.failures) for on, m in labeled)),
        _histograms("svc.request.duration", "s", ((on, m.times) for on, m in labeled)),
        _counter("svc.request.compute", "s", ((on, m.compute_ns / 1e9) for on, m in labeled)),
        _histograms("svc.request.memory", "By", ((on, m.memory) for on, m in labeled)),
        _counter("svc.request.received", "By", ((on, m.bytes_in) for on, m in labeled)),
        _counter("svc.request.sent", "By", ((on, m.bytes_out) for on, m in labeled)),
        _histograms("svc.queue.wait", "s", ((on, m.waits) for on, m in labeled)),
        _counters("svc.egress.requests", "status", ((on, m.fetches) for on, m in labeled)),
        _histograms("svc.egress.duration", "s", ((on, m.fetch_times) for on, m in labeled)),
        _counter("svc.egress.received", "By", ((on, m.fetch_bytes_in) for on, m in labeled)),
        _counter("svc.egress.sent", "By", ((on, m.fetch_bytes_out) for on, m in labeled)),
        _histograms("svc.sql.duration", "s", ((on, m.sql_times) for on, m in labeled)),
        _counter("svc.sql.failures", "", ((on, m.sql_failures) for on, m in labeled)),
        _counters("svc.log.records", "severity", ((on, m.records) for on, m in labeled)),
    ]
    return each if state is None else [*each, *_service(state)]


def _service(state: ServiceState) -> Iterator[Family]:
    for name, counts in (
        ("svc.instances", [pool.running for pool in state.pools]),
        ("svc.queued", [pool.queued for pool in state.pools]),
    ):
        projects = sorted({project for of_pool in counts for project in of_pool})
        points = [
            ({"project": each}, float(sum(of_pool.get(each, 0) for of_pool in counts))) for each in projects
        ]
        yield Family(name, "gauge", "", _HELP[name], points)
    for name, value in (("svc.memory.used", state.memory_used), ("svc.memory.budget", state.memory_budget)):
        yield Family(name, "gauge", "By", _HELP[name], [({}, float(value))])
    yield from state.counters


def _counters(name: str, label: str, counts: Iterable[tuple[Labels, Mapping[str, int]]]) -> Family:
    each = ((on, value, count) for on, of_resource in counts for value, count in sorted(of_resource.items()))
    return _counter(name, "", (({**on, label: value}, count) for on, value, count in each))


def _counter(name: str, unit: str, points: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, "counter", unit, _HELP[name], list(points))


def _histograms(name: str, unit: str, histograms: Iterable[tuple[Labels, Histogram]]) -> Family:
    """Return a metric of histograms; those without a value are omitted."""
    bounds, scale = (DURATION_BOUNDS, 1e9) if unit == "s" else (MEMORY_BOUNDS, 1)
    points = [
        (labels, Distribution(bounds, histogram.counts, histogram.sum / scale))
        for labels, histogram in histograms
        if any(histogram.counts)
    ]
    return Family(name, "histogram", unit, _HELP[name], points)


RESERVED = ("project", "resource", "le")
"""Labels of svc. Attributes of these names get the prefix `attribute_`."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


def guest_families(projects: Mapping[str, Iterable[Series]]) -> list[Family]:
    """Return the series of projects as families, with the names that the guests chose."""
    points: dict[tuple[str, MetricKind, str], list[tuple[Labels, float | Distribution]]] = {}
    helps: dict[tuple[str, MetricKind, str], str] = {}
    for project, each in projects.items():
        for series in each:
            last = series.last
            key = (last.name, last.kind, last.unit)
            helps.setdefault(key, last.description)
            labels = {
                f"attribute_{name}" if name in RESERVED else name: text for name, text in last.attributes
            }
            labels |= {"project": project, "resource": series.resource}
            value: float | Distribution = series.value
            if last.kind == "histogram":
                value = Distribution(last.bounds, series.counts, series.value)
            points.setdefault(key, []).append((labels, value))
    return [
        Family(name, kind, unit, helps[name, kind, unit], values)
        for (name, kind, unit), values in points.items()
    ]


def prometheus(families: Sequence[Family]) -> list[Family]:
    """Return families with names and labels that Prometheus accepts. Each name is unique."""
    used: set[str] = set()
    renamed = []
    for family in families:
        unit = family.unit if family.unit in _UNITS else ""
        base = name = _valid(family.name.removesuffix("_total"))
        number = 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        values = {tuple(sorted(_valid_labels(labels).items())): value for labels, value in family.points}
        points = [(dict(labels), value) for labels, value in values.items()]
        renamed.append(Family(name, family.kind, unit, family.help, points))
    return renamed


def _valid_labels(labels: Labels) -> dict[str, str]:
    """Return labels with valid names. Those that become equal are joined, as OpenTelemetry specifies."""
    valid: dict[str, str] = {}
    for key, text in labels.items():
        name = _valid(key)
        valid[name] = f"{valid[name]};{text}" if name in valid else text
    return valid


def _valid(name: str) -> str:
    """Return a name of letters, digits and `_`, that does not begin with a digit or `__`."""
    text = re.sub("_+", "_", _NO_NAME.sub("_", name)) or "_"
    return f"_{text}" if text[0].isdigit() else text


_UNITS = {"s": "seconds", "By": "bytes", "": ""}


def exposition(families: Sequence[Family]) -> tuple[bytes, str]:
    """Return the document and its media type."""
    # Imported on demand: the library takes 70 ms, and a service without a scraper does not need it.
    from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

    class Collected:
        def collect(self) -> Iterator[Any]:
            return map(_metric, families)

    return generate_latest(Collected()), CONTENT_TYPE_LATEST


def _metric(family: Family) -> Any:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.utils import floatToGoString

    unit = _UNITS[family.unit]
    name = family.name.replace(".", "_") + (f"_{unit}" if unit else "")
    metric = Metric(name, family.help, "gauge" if family.kind == "updown" else family.kind, unit)
    for labels, value in family.points:
        if not isinstance(value, Distribution):
            metric.add_sample(name + "_total" * (family.kind == "counter"), dict(labels), value)
            continue
        totals = list(accumulate(value.counts))
        for bound, total in zip((*value.bounds, float("inf")), totals, strict=True):
            metric.add_sample(f"{name}_bucket", {**labels, "le": floatToGoString(bound)}, total)
        metric.add_sample(f"{name}_count", dict(labels), totals[-1])
        metric.add_sample(f"{name}_sum", dict(labels), value.sum)
    return metric
