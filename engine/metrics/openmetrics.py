"""The metrics in the OpenMetrics text format, by the client library of Prometheus."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from engine.metrics.families import Distribution, Family

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
