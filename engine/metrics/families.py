"""The metrics of the service: names, units and values, independent of the format that carries them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.metrics.meter import DURATION_BOUNDS, MEMORY_BOUNDS, Histogram, ResourceMeter

Labels = Mapping[str, str]
Kind = Literal["counter", "updown", "gauge", "histogram"]
"""`updown` is a sum that can fall."""


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
    kind: Kind
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
        _counters("svc.requests", "", ((_more(on, "status", m.requests)) for on, m in labeled)),
        _counters("svc.request.failures", "", ((_more(on, "code", m.failures)) for on, m in labeled)),
        _histograms("svc.request.duration", "s", ((on, m.times) for on, m in labeled)),
        _counter("svc.request.compute", "s", ((on, m.compute_ns / 1e9) for on, m in labeled)),
        _histograms("svc.request.memory", "By", ((on, m.memory) for on, m in labeled)),
        _counter("svc.request.received", "By", ((on, m.bytes_in) for on, m in labeled)),
        _counter("svc.request.sent", "By", ((on, m.bytes_out) for on, m in labeled)),
        _histograms("svc.queue.wait", "s", ((on, m.waits) for on, m in labeled)),
        _counters("svc.egress.requests", "", ((_more(on, "status", m.fetches)) for on, m in labeled)),
        _histograms("svc.egress.duration", "s", ((on, m.fetch_times) for on, m in labeled)),
        _counter("svc.egress.received", "By", ((on, m.fetch_bytes_in) for on, m in labeled)),
        _counter("svc.egress.sent", "By", ((on, m.fetch_bytes_out) for on, m in labeled)),
        _histograms("svc.sql.duration", "s", ((on, m.sql_times) for on, m in labeled)),
        _counter("svc.sql.failures", "", ((on, m.sql_failures) for on, m in labeled)),
        _counters("svc.log.records", "", ((_more(on, "severity", m.records)) for on, m in labeled)),
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
    for name, value in (
        ("svc.memory.used", state.memory_used),
        ("svc.memory.budget", state.memory_budget),
    ):
        yield Family(name, "gauge", "By", _HELP[name], [({}, float(value))])
    yield from state.counters


def _more(labels: Labels, name: str, counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    return [({**labels, name: value}, count) for value, count in sorted(counts.items())]


def _counters(name: str, unit: str, points: Iterable[list[tuple[Labels, float]]]) -> Family:
    return _counter(name, unit, (point for of_resource in points for point in of_resource))


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
