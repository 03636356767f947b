"""Measurements of guests' metrics, and their aggregation into a bounded number of series."""

import sys
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

MAX_COUNT = 1 << 53
"""Maximum count of a bucket, and of a series of them: the sum of all buckets fits in 64 bits."""
MAX_SERIES = 1_000
"""Maximum series of a project: combinations of resource, metric and attributes."""
MetricKind = Literal["counter", "updown", "gauge", "histogram"]
Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value of a gauge, or what is added to another metric.

    `attributes` are sorted. A histogram has `counts` of values up to each of `bounds` and above all, and its
    `value` is their sum.
    """

    name: str
    kind: MetricKind
    value: float
    _: KW_ONLY
    unit: str = ""
    description: str = ""
    attributes: Attributes = ()
    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasurementBatch:
    """Measurements of a resource; `time_ns` is the time of arrival (Unix epoch)."""

    time_ns: int
    resource: str
    measurements: tuple[Measurement, ...]

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        return sum(
            200 + 16 * len(each.counts) + sum(len(key) + len(text) for key, text in each.attributes)
            for each in self.measurements
        )


@dataclass(slots=True)
class Series:
    """The aggregation of the measurements of one combination of attributes.

    Its `last` measurement has the name, unit and description. `value`, `counts` and `bounds` are as in a
    measurement, added since `since_ns`.
    """

    resource: str
    last: Measurement
    since_ns: int
    time_ns: int
    _: KW_ONLY
    value: float = 0.0
    counts: tuple[int, ...] = ()

    def add(self, measurement: Measurement, time_ns: int) -> None:
        """Add a measurement. Other bounds than before start a histogram at zero."""
        if measurement.bounds != self.last.bounds:
            self.value, self.counts, self.since_ns = 0.0, (), time_ns
        self.last, self.time_ns = measurement, time_ns
        if measurement.kind == "gauge":
            self.value = measurement.value
        else:
            self.value = min(max(self.value + measurement.value, -sys.float_info.max), sys.float_info.max)
        if self.counts:
            self.counts = tuple(
                min(sum(each), MAX_COUNT) for each in zip(self.counts, measurement.counts, strict=True)
            )
        else:
            self.counts = measurement.counts


SeriesKey = tuple[str, str, MetricKind, Attributes]


class SeriesTable:
    """The series of a project. `omitted` counts measurements without room for their series."""

    def __init__(self, limit: int = MAX_SERIES) -> None:
        self._limit = limit
        self._series: dict[SeriesKey, Series] = {}
        self.omitted = 0

    def add(self, batch: MeasurementBatch) -> dict[SeriesKey, Series]:
        """Add measurements; return the series that they changed."""
        changed: dict[SeriesKey, Series] = {}
        for each in batch.measurements:
            key = (batch.resource, each.name, each.kind, each.attributes)
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= self._limit:
                    self.omitted += 1
                    continue
                series = self._series[key] = Series(batch.resource, each, batch.time_ns, batch.time_ns)
            series.add(each, batch.time_ns)
            changed[key] = series
        return changed

    def series(self) -> Iterable[Series]:
        return self._series.values()
