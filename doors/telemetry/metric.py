"""Conversion of OTLP metrics into measurements.

Each request runs in an instance of its own, whose cumulative values start at zero. So the last values of each
request are subtracted, and what remains is added to the series of all requests.
"""

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from operator import sub

from doors.telemetry.record import BadRecord, Pairs, limit_attributes, shorten
from engine.door import Caller
from engine.measurement import MAX_COUNT, MAX_SERIES, Attributes, Measurement, MetricKind

MAX_NAME_CHARS = 255
MAX_UNIT_CHARS = 63
MAX_DESCRIPTION_BYTES = 200
MAX_POINT_ATTRIBUTES = 16
MAX_POINT_ATTRIBUTE_BYTES = 1 << 10
"""Maximum attributes, and bytes of them, of one data point."""
MAX_POINTS = MAX_SERIES
"""Maximum data points of a request."""
MAX_BOUNDS = 64
"""Maximum bounds of a histogram."""
MAX_REMEMBERED = 10_000
"""Maximum cumulative values of a project that are remembered, for requests that export more than once."""

UNSPECIFIED, DELTA, CUMULATIVE = 0, 1, 2
"""AggregationTemporality by number."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]*")


@dataclass(frozen=True, slots=True)
class GuestPoint:
    """A data point. Of a histogram, `value` is the sum, and `counts` has one more element than `bounds`."""

    value: float
    _: KW_ONLY
    attributes: Pairs = ()
    bounds: Sequence[float] = ()
    counts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class GuestMetric:
    """The fields of opentelemetry.proto.metrics.v1.Metric that are read.

    `kind` is empty for one that is not supported. `temporality` is the number of AggregationTemporality.
    """

    name: str
    kind: MetricKind | None
    _: KW_ONLY
    unit: str = ""
    description: str = ""
    temporality: int = UNSPECIFIED
    points: Sequence[GuestPoint] = ()


def measurements(metric: GuestMetric) -> Iterator[Measurement | BadRecord]:
    """Yield the measurement of each data point of a metric, or why it is rejected."""
    problem = _problem(metric)
    for point in metric.points:
        bad = problem or _problem_of_point(metric, point)
        if bad:
            yield BadRecord(f"{shorten(metric.name, 80)} {bad}")
            continue
        assert metric.kind is not None
        texts, _ = limit_attributes(point.attributes, MAX_POINT_ATTRIBUTES, MAX_POINT_ATTRIBUTE_BYTES)
        yield Measurement(
            metric.name,
            metric.kind,
            point.value,
            unit=shorten(metric.unit, MAX_UNIT_CHARS),
            description=shorten(metric.description, MAX_DESCRIPTION_BYTES),
            attributes=tuple(sorted(texts.items())),
            bounds=tuple(point.bounds),
            counts=tuple(point.counts),
        )


def _problem(metric: GuestMetric) -> str:
    if len(metric.name) > MAX_NAME_CHARS or not _NAME.fullmatch(metric.name):
        return "is not a valid name for a metric"
    if metric.kind is None:
        return "is not a gauge, a sum or a histogram with explicit bounds"
    if metric.kind != "gauge" and metric.temporality not in (DELTA, CUMULATIVE):
        return "has no aggregation temporality"
    return ""


def _problem_of_point(metric: GuestMetric, point: GuestPoint) -> str:
    if not math.isfinite(point.value):
        return "has a value that is not finite"
    if metric.kind == "counter" and point.value < 0:
        return "is monotonic and has a negative value"
    if metric.kind != "histogram":
        return ""
    bounds = point.bounds
    if len(bounds) > MAX_BOUNDS:
        return f"has more than {MAX_BOUNDS} bounds"
    if len(point.counts) != len(bounds) + 1 or min(point.counts) < 0:
        return "has other bucket counts than bounds"
    if max(point.counts) > MAX_COUNT:
        return "has a bucket count above 2^53"
    if not all(map(math.isfinite, bounds)) or any(a >= b for a, b in pairwise(bounds)):
        return "has bounds that do not increase"
    return ""


class CumulativeValues:
    """The last cumulative values of requests. Call it from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, str, str, Attributes], Measurement] = OrderedDict()

    def added(self, caller: Caller, measurement: Measurement) -> Measurement:
        """Return what a cumulative measurement adds to the previous one of the same request."""
        key = (caller.request_id, caller.resource, measurement.name, measurement.attributes)
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = measurement
            if len(self._values) > MAX_REMEMBERED:
                self._values.popitem(last=False)
        if before is None or before.bounds != measurement.bounds or before.kind != measurement.kind:
            return measurement
        counts = tuple(map(sub, measurement.counts, before.counts))
        value = measurement.value - before.value
        if min(counts, default=0) < 0 or (measurement.kind == "counter" and value < 0):
            return measurement  # It was reset.
        return Measurement(  # `replace` would take three times as long.
            measurement.name,
            measurement.kind,
            value,
            unit=measurement.unit,
            description=measurement.description,
            attributes=measurement.attributes,
            bounds=measurement.bounds,
            counts=counts,
        )
