"""Guests' metrics in the OpenMetrics format, read by the parser of Prometheus' client library."""

import sys

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from doors.telemetry.signals import MAX_BOUNDS
from engine.measurement import MAX_COUNT, Measurement, MeasurementBatch
from engine.metrics.families import ServiceMeter, exposition, guest_families, prometheus
from engine.otlp.sender import metrics_data


def exposed(*measurements: Measurement) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of measurements of the resource `api`, without the labels of svc."""
    meter = ServiceMeter()
    meter.measurer("shop")(MeasurementBatch(1, "api", measurements))
    body, _ = exposition(prometheus(guest_families(meter.series("shop"))))
    samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("project"), labels.pop("resource")) == ("shop", "api")
            samples[sample.name, tuple(sorted(labels.items()))] = sample.value
    return samples


def test_metrics_have_valid_names_and_units() -> None:
    found = exposed(
        Measurement("orders.placed-now", "counter", 2, unit="{order}"),
        Measurement("wait", "gauge", 0.5, unit="s"),
        Measurement("open", "updown", -1, unit="1"),
        Measurement("sizes", "histogram", 9, unit="By", bounds=(5.0,), counts=(1, 2)),
    )
    assert found["orders_placed_now_total", ()] == 2
    assert (found["wait_seconds", ()], found["open", ()]) == (0.5, -1)
    assert found["sizes_bytes_bucket", (("le", "5.0"),)] == 1
    assert (found["sizes_bytes_count", ()], found["sizes_bytes_sum", ()]) == (3, 9)


def test_names_that_become_equal_stay_apart() -> None:
    found = exposed(
        Measurement("a.b", "counter", 1), Measurement("a_b", "counter", 2), Measurement("a-b", "gauge", 3)
    )
    assert found == {("a_b_total", ()): 1, ("a_b_2_total", ()): 2, ("a_b_3", ()): 3}


def test_attributes_are_labels_that_cannot_replace_those_of_svc() -> None:
    attributes = (("9 lives", "a"), ("http.method", "GET"), ("http_method", 'P"\n'), ("project", "other"))
    found = exposed(Measurement("n", "counter", 1, attributes=attributes))
    labels = (("_9_lives", "a"), ("attribute_project", "other"), ("http_method", 'GET;P"\n'))
    assert found == {("n_total", labels): 1}


def test_sums_of_extreme_values_stay_exportable() -> None:
    """The operator's collector gets the metrics of all projects in one request."""
    meter = ServiceMeter()
    measure, largest = meter.measurer("shop"), sys.float_info.max
    counts = (MAX_COUNT,) * (MAX_BOUNDS + 1)
    bounds = tuple(map(float, range(MAX_BOUNDS)))
    for _ in range(2):
        measure(
            MeasurementBatch(
                1,
                "web",
                (
                    Measurement("sizes", "histogram", largest, bounds=bounds, counts=counts),
                    Measurement("orders", "counter", largest),
                    Measurement("open", "updown", -largest),
                ),
            )
        )
    sizes, orders, opened = meter.series()["shop"]
    assert (sizes.counts, sizes.value) == (counts, largest)
    assert (orders.value, opened.value) == (largest, -largest)
    families = guest_families(meter.series())
    request = encode_metrics(metrics_data(families, 1, 2))
    assert len(request.resource_metrics[0].scope_metrics[0].metrics) == 3
    assert exposition(prometheus(families))[0].endswith(b"# EOF\n")


def test_series_of_one_project_are_read_alone() -> None:
    meter = ServiceMeter()
    for project in ("shop", "blog"):
        meter.measurer(project)(MeasurementBatch(1, "web", (Measurement("n", "counter", 1),)))
    assert list(meter.series("shop")) == ["shop"] and set(meter.series()) == {"shop", "blog"}
