"""Conversion of the metrics of the service into the metrics of the OpenTelemetry SDK."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from engine.metrics.families import Distribution, Family, Labels
from engine.otlp.convert import SCOPE, resource_of

_Owner = tuple[str, str]


def metrics_data(families: Sequence[Family], started_ns: int, now_ns: int) -> MetricsData:
    """Return the metrics by resource. Counters began at `started_ns`; the values are those of `now_ns`."""
    owners: dict[_Owner, list[Metric]] = {}
    for family in families:
        points: dict[_Owner, list[tuple[Labels, float | Distribution]]] = {}
        for labels, value in family.points:
            owner = labels.get("project", ""), labels.get("resource", "")
            points.setdefault(owner, []).append((labels, value))
        for owner, of_owner in points.items():
            owners.setdefault(owner, []).append(_metric(family, of_owner, started_ns, now_ns))
    return MetricsData(
        [
            ResourceMetrics(resource_of(*owner), [ScopeMetrics(SCOPE, metrics, "")], "")
            for owner, metrics in owners.items()
        ]
    )


def _metric(
    family: Family, points: list[tuple[Labels, float | Distribution]], started_ns: int, now_ns: int
) -> Metric:
    data: Any
    if family.kind == "histogram":
        data = Histogram(
            [_histogram(labels, value, started_ns, now_ns) for labels, value in points],
            AggregationTemporality.CUMULATIVE,
        )
    else:
        numbers = [
            NumberDataPoint(_attributes(labels), 0 if family.kind == "gauge" else started_ns, now_ns, value)
            for labels, value in points
            if not isinstance(value, Distribution)
        ]
        if family.kind == "gauge":
            data = Gauge(numbers)
        else:
            data = Sum(numbers, AggregationTemporality.CUMULATIVE, family.kind == "counter")
    return Metric(family.name, family.help, family.unit, data)


def _histogram(labels: Labels, value: Any, started_ns: int, now_ns: int) -> HistogramDataPoint:
    unknown: Any = None  # Minimum and maximum are not recorded.
    return HistogramDataPoint(
        _attributes(labels),
        started_ns,
        now_ns,
        sum(value.counts),
        value.sum,
        value.counts,
        value.bounds,
        unknown,
        unknown,
    )


def _attributes(labels: Labels) -> dict[str, str]:
    return {key: text for key, text in labels.items() if key not in ("project", "resource")}
