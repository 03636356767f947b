"""Guests' metrics: the SDK of OpenTelemetry and JSON by hand, and what of them is rejected."""

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from doors.telemetry.signals import MAX_BOUNDS, MAX_POINT_ATTRIBUTES, MAX_POINTS
from engine.door import Caller, DoorResponse
from engine.measurement import Measurement
from tests.doors.telemetry.telemetry_door import CALLER, OpenTelemetry, attributes

OTHER = Caller("api", "req-2")


def document(*metrics: Any) -> dict[str, Any]:
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": list(metrics)}]}]}


def counter(value: Any, temporality: int = 2, **point: Any) -> dict[str, Any]:
    points = [{"asInt": value, **point}]
    return {
        "name": "orders",
        "unit": "{order}",
        "sum": {"dataPoints": points, "aggregationTemporality": temporality, "isMonotonic": True},
    }


def histogram(counts: list[Any], bounds: list[Any], **point: Any) -> dict[str, Any]:
    points = [{"bucketCounts": counts, "explicitBounds": bounds, **point}]
    return {"name": "sizes", "histogram": {"dataPoints": points, "aggregationTemporality": 2}}


def gauge(value: Any, name: str = "depth", **point: Any) -> dict[str, Any]:
    return {"name": name, "gauge": {"dataPoints": [{"asDouble": value, **point}]}}


def send(telemetry: OpenTelemetry, *metrics: Any, caller: Caller = CALLER) -> DoorResponse:
    body = json.dumps(document(*metrics)).encode()
    return asyncio.run(telemetry.send(body, path="/v1/metrics", caller=caller))


def rejected(answer: DoorResponse) -> tuple[str, str]:
    partial = json.loads(answer.body)["partialSuccess"]
    return partial["rejectedDataPoints"], partial["errorMessage"]


def measured(telemetry: OpenTelemetry) -> list[Measurement]:
    return [each for batch in telemetry.measured for each in batch.measurements]


def test_cumulative_values_of_a_request_are_added_once(telemetry: OpenTelemetry) -> None:
    for caller, value in ((CALLER, 2), (OTHER, 3), (CALLER, 5), (OTHER, 3), (CALLER, 1)):
        assert json.loads(send(telemetry, counter(value), caller=caller).body) == {}
    assert [each.value for each in measured(telemetry)] == [2, 3, 3, 0, 1]  # The last one was reset.
    assert {(batch.resource, each.unit) for batch in telemetry.measured for each in batch.measurements} == {
        ("api", "{order}")
    }


def test_deltas_and_gauges_are_taken_as_they_are(telemetry: OpenTelemetry) -> None:
    for value in (4, 4):
        send(telemetry, counter(value, temporality=1), gauge(value))
    assert [(each.kind, each.value) for each in measured(telemetry)] == [("counter", 4), ("gauge", 4)] * 2


def test_histograms_of_a_request_are_subtracted(telemetry: OpenTelemetry) -> None:
    send(telemetry, histogram(["1", "0", "2"], [1, 10], sum=41, count="3"))
    send(telemetry, histogram(["1", "1", "2"], [1, 10], sum=46, count="4"))
    first, second = measured(telemetry)
    assert (first.counts, first.value, first.bounds) == ((1, 0, 2), 41, (1, 10))
    assert (second.counts, second.value) == ((0, 1, 0), 5)


def test_points_have_their_attributes_in_order(telemetry: OpenTelemetry) -> None:
    send(telemetry, gauge(1, attributes=attributes(b="2", a="1")))
    many = {f"k{number:02}": "v" for number in range(MAX_POINT_ATTRIBUTES + 5)}
    send(telemetry, gauge(1, attributes=attributes(**many)))
    first, second = measured(telemetry)
    assert first.attributes == (("a", "1"), ("b", "2"))
    assert len(second.attributes) == MAX_POINT_ATTRIBUTES


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (gauge(1, name="1st"), "is not a valid name"),
        (gauge(1, name="a" * 256), "is not a valid name"),
        (gauge("NaN"), "is not finite"),
        (gauge("many"), "doubleValue is not a number"),
        (counter(-1), "is monotonic and has a negative value"),
        (counter(1, temporality=0), "has no aggregation temporality"),
        (counter("x"), "asInt is not a number"),
        (histogram([1, 2], [1, 2]), "has other bucket counts than bounds"),
        (histogram([1, -2], [1]), "has other bucket counts than bounds"),
        (histogram([1, 1, 1], [2, 1]), "has bounds that do not increase"),
        (histogram([(1 << 53) + 1, 1], [1]), "has a bucket count above 2^53"),
        (histogram([0] * (MAX_BOUNDS + 2), list(range(MAX_BOUNDS + 1))), "has more than 64 bounds"),
        ({"name": "old", "summary": {"dataPoints": [{}]}}, "is not a gauge, a sum or a histogram"),
        ({"name": "exp", "exponentialHistogram": {"dataPoints": [{}]}}, "is not a gauge, a sum or"),
        ({"name": "bad", "gauge": []}, "gauge is an array"),
        ({"name": "bad", "gauge": {"dataPoints": [7]}}, "a data point is a number"),
        (7, "it is a number"),
    ],
)
def test_invalid_metric_is_rejected_alone(telemetry: OpenTelemetry, metric: Any, reason: str) -> None:
    count, message = rejected(send(telemetry, gauge(1), metric, gauge(2)))
    assert count == "1" and message.startswith("metric 2: ") and reason in message
    assert [each.value for each in measured(telemetry)] == [1, 2]


def test_too_many_points_are_refused(telemetry: OpenTelemetry) -> None:
    points = {"gauge": {"dataPoints": [{"asInt": 1}] * MAX_POINTS}, "name": "depth"}
    assert send(telemetry, points).status == 200
    assert len(measured(telemetry)) == MAX_POINTS
    telemetry.measured.clear()
    answer = send(telemetry, counter(7), points)
    assert answer.status == 413 and "1000 data points" in json.loads(answer.body)["message"]
    assert not telemetry.measured
    send(telemetry, counter(7))
    assert [each.value for each in measured(telemetry)] == [7]  # The refused request counts for nothing.


def test_protobuf_has_the_same_fields(telemetry: OpenTelemetry) -> None:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    total = scope.metrics.add(name="orders", unit="1", description="taken")
    total.sum.is_monotonic, total.sum.aggregation_temporality = True, 2
    total.sum.data_points.add(as_int=7)
    level = scope.metrics.add(name="level")
    level.sum.aggregation_temporality = 1
    level.sum.data_points.add(as_double=-0.5)
    sizes = scope.metrics.add(name="sizes")
    sizes.histogram.aggregation_temporality = 2
    sizes.histogram.data_points.add(sum=3, count=2, bucket_counts=[2, 0], explicit_bounds=[10])
    scope.metrics.add(name="old").summary.data_points.add()
    answer = telemetry.post(request.SerializeToString(), "application/x-protobuf", path="/v1/metrics")
    partial = ExportMetricsServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_data_points == 1 and partial.error_message.startswith("metric 4: old is not")
    assert [(each.name, each.kind, each.value) for each in measured(telemetry)] == [
        ("orders", "counter", 7),
        ("level", "updown", -0.5),
        ("sizes", "histogram", 3),
    ]
    assert measured(telemetry)[0].description == "taken"
    assert measured(telemetry)[2].counts == (2, 0)
