"""Counters of resources and their OpenMetrics form, read by the parser of Prometheus' client library."""

from dataclasses import replace
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from engine.metrics import families as meter_module
from engine.metrics.families import OTHER, Family, PoolState, ServiceMeter, ServiceState, exposition, families
from engine.trace import Call
from tests.engine.timeline.records import LINE, REQUEST, STRUCTURED

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(meter: ServiceMeter, state: ServiceState | None = None) -> Samples:
    """Return the samples of the document by name and labels."""
    body, _ = exposition(families(meter.read(), state))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def of(found: Samples, name: str, **labels: str) -> float | None:
    """Return a sample of the resource `web`."""
    key = {"project": "shop", "resource": "web"} | labels
    return found.get((name, tuple(sorted(key.items()))))


def test_requests_and_their_calls_are_counted() -> None:
    meter = ServiceMeter()
    follow = meter.follower("shop")
    calls = (
        Call("sql", "select 1", 0, wall_ns=2_000_000, status=200),
        Call("sql", "insert", 0, wall_ns=2_000_000, status=409, code="constraint"),
        Call("wait", "wait for an instance", 0, wall_ns=40_000_000),
        Call("fetch", "GET http://a", 0, wall_ns=1, status=204, details={"bytes_in": 5, "bytes_out": 7}),
        Call("fetch", "GET http://b", 0, wall_ns=1, code="denied"),
        Call("fetch", "GET http://c", 0, wall_ns=1, status=999),
        Call("span", "mine", 0, wall_ns=1, span_id="a" * 16, details={"bytes_in": "text"}),
    )
    follow(replace(REQUEST, calls=calls))
    follow(replace(REQUEST, status=503, code="overloaded", wall_ns=60_000_000_000, peak_memory=None))
    follow(STRUCTURED)
    follow(LINE)
    found = samples(meter)
    assert of(found, "svc_requests_total", status="2xx") == of(found, "svc_requests_total", status="5xx") == 1
    assert of(found, "svc_request_failures_total", code="overloaded") == 1
    assert of(found, "svc_request_duration_seconds_bucket", le="0.005") == 1
    assert of(found, "svc_request_duration_seconds_bucket", le="30.0") == 1
    assert of(found, "svc_request_duration_seconds_bucket", le="+Inf") == 2
    assert of(found, "svc_request_duration_seconds_count") == 2
    assert of(found, "svc_request_duration_seconds_sum") == 60.005
    assert of(found, "svc_request_compute_seconds_total") == 0.004
    assert of(found, "svc_request_memory_bytes_count") == 1
    assert (of(found, "svc_request_received_bytes_total"), of(found, "svc_request_sent_bytes_total")) == (
        6,
        12,
    )
    assert of(found, "svc_queue_wait_seconds_bucket", le="0.05") == 1
    assert (of(found, "svc_sql_duration_seconds_count"), of(found, "svc_sql_failures_total")) == (2, 1)
    assert of(found, "svc_egress_requests_total", status="2xx") == 1
    assert of(found, "svc_egress_requests_total", status="9xx") == 1
    assert of(found, "svc_egress_requests_total", status="denied") == 1
    assert (of(found, "svc_egress_received_bytes_total"), of(found, "svc_egress_sent_bytes_total")) == (5, 7)
    assert of(found, "svc_log_records_total", severity="WARN") == 1


def test_state_of_processes_is_summed() -> None:
    pools = [PoolState({"shop": 2}, {}), PoolState({"shop": 1, "blog": 1}, {"blog": 4})]
    extra = Family("svc.extra", "counter", "", "More.", [({}, 3.0)])
    state = ServiceState(pools, memory_used=1 << 20, memory_budget=1 << 30, counters=[extra])
    found = samples(ServiceMeter(), state)
    assert found["svc_instances", (("project", "shop"),)] == 3
    assert found["svc_queued", (("project", "blog"),)] == 4
    assert found["svc_memory_used_bytes", ()] == 1 << 20
    assert found["svc_memory_budget_bytes", ()] == 1 << 30
    assert found["svc_extra_total", ()] == 3


def test_every_metric_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    body, _ = exposition(families({}, ServiceState()))
    names = [
        family.name + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(body.decode())
    ]
    assert len(names) >= 19 and [name for name in names if f"`{name}`" not in page] == []


def test_number_of_resources_is_limited() -> None:
    meter = ServiceMeter()
    for number in range(meter_module.MAX_RESOURCES + 10):
        meter.follower("shop")(replace(REQUEST, resource=f"r{number}"))
    meters = meter.read()
    assert len(meters) == meter_module.MAX_RESOURCES + 1
    assert sum(meters[OTHER, OTHER].requests.values()) == 10
