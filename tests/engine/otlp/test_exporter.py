"""The exporter and the OpenTelemetry SDK against a collector that parses the protobuf messages."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.manifest.egress import parse_collector
from engine.metrics.families import Family, ServiceMeter, families
from engine.otlp import exports as exporter_module
from engine.otlp import sender
from engine.otlp import sender as session_module
from engine.otlp.exports import ByteBudget, Exporter
from engine.timeline.record import LineRecord, PlatformRecord, Record
from engine.trace import Call, span_ids
from tests.engine.otlp.collector import attributes_of, collecting
from tests.engine.timeline.records import BEGAN, LINE, REQUEST, STRUCTURED
from tests.support.waiting import until

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
ROOT = replace(REQUEST, trace_id=TRACE, span_id=SPAN, parent=PARENT)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_module, "SEND_SECONDS", 0.01)
    monkeypatch.setattr(exporter_module, "RETRY_SECONDS", 0.01)


@pytest.fixture
def short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """For collectors that never answer: the SDK tries again for less than a second."""
    monkeypatch.setattr(sender, "REQUEST_SECONDS", 0.5)


@contextmanager
def exporting(
    url: str,
    *,
    max_bytes: int = 1 << 20,
    headers: dict[str, str] | None = None,
    metrics: Callable[[], Sequence[Family]] = tuple,
    reports: list[str] | None = None,
    seconds: float = 60.0,
) -> Iterator[Exporter]:
    exporter = Exporter(
        parse_collector(url),
        ByteBudget(1 << 30),
        metrics=metrics,
        report=(reports if reports is not None else []).append,
        started_ns=BEGAN,
        max_bytes=max_bytes,
        headers=headers,
    )
    try:
        yield exporter
    finally:
        exporter.close(time.monotonic() + seconds)


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_request_and_calls_are_spans_with_the_ids_of_the_timeline() -> None:
    calls = (
        Call("sql", "select \udc80 1", 1000, wall_ns=2000, status=409, code="constraint"),
        Call("fetch", "GET https://api.example", 5000, wall_ns=10, status=204, details={"bytes_in": 5}),
        Call("span", "mine", 6000, wall_ns=1, span_id="a" * 16, details={"span.kind": "producer", "n": "1"}),
        Call("sql", "inner", 1000, wall_ns=1, parent=0),
    )
    with collecting() as collector, exporting(collector.url) as exporter:
        exporter.add("shop", replace(ROOT, calls=calls))
        exporter.add("shop", replace(ROOT, span_id="c" * 16, resource="api", status=503, code="overloaded"))
        until(lambda: len(collector.spans) == 6)
        ids = span_ids(SPAN, calls)
        root, sql, fetch, mine, inner, failed = (span for _, span in collector.spans)
        assert [name for name, _ in collector.spans] == ["shop/web"] * 5 + ["shop/api"]
        assert (root.trace_id.hex(), root.span_id.hex(), root.parent_span_id.hex()) == (TRACE, SPAN, PARENT)
        assert [each.span_id.hex() for each in (sql, fetch, mine, inner)] == ids
        assert {each.parent_span_id.hex() for each in (sql, fetch, mine)} == {SPAN}
        assert inner.parent_span_id == sql.span_id
        assert root.end_time_unix_nano - root.start_time_unix_nano == REQUEST.wall_ns
        assert sql.start_time_unix_nano == BEGAN + 1000
        assert [each.kind for each in (root, sql, fetch, mine)] == [2, 3, 3, 4]
        assert [each.status.code for each in (root, sql, failed)] == [0, 2, 2]
        seen = attributes_of(root)
        assert (seen["url.path"], seen["url.query"], seen["svc.request_id"]) == ("/a", "b=c", "01id")
        assert (sql.name, attributes_of(sql)["db.query.text"]) == ("SELECT", "select ? 1")
        assert attributes_of(fetch)["server.address"] == "api.example"
        assert attributes_of(mine) == {"n": "1"}


def test_other_records_are_log_records() -> None:
    platform = PlatformRecord(BEGAN, "", "ERROR", "the deploy failed")
    ids = {"trace_id": TRACE, "span_id": SPAN}
    records: list[Record] = [replace(STRUCTURED, **ids), replace(LINE, **ids), platform]
    with collecting() as collector, exporting(collector.url) as exporter:
        for record in records:
            exporter.add("shop", record)
        exporter.add("", platform)
        until(lambda: len(collector.logs) == 4)
        names, found = zip(*collector.logs, strict=True)
        assert names == ("shop/web", "shop/web", "shop", "svc")
        assert [each.body.string_value for each in found[:3]] == ["low", "hello", "the deploy failed"]
        assert [each.severity_number for each in found] == [13, 9, 17, 17]
        assert {(each.trace_id.hex(), each.span_id.hex()) for each in found[:2]} == {(TRACE, SPAN)}
        assert attributes_of(found[0]) == {"left": "3", "ü": "日本", "svc.request_id": "01id"}
        assert attributes_of(found[1])["log.iostream"] == "stdout" and found[2].trace_id == b""


def test_metrics_are_sent_at_the_end_by_resource() -> None:
    meter = ServiceMeter()
    meter.follower("shop")(ROOT)
    with collecting() as collector:
        with exporting(collector.url, metrics=lambda: families(meter.read(), None)):
            pass
        found = {metric.name: (name, metric) for name, metric in collector.metrics}
        name, requests = found["svc.requests"]
        assert name == "shop/web" and requests.sum.is_monotonic
        assert requests.sum.aggregation_temporality == 2  # cumulative
        (point,) = requests.sum.data_points
        assert (point.as_int, point.start_time_unix_nano) == (1, BEGAN)
        assert attributes_of(point) == {"status": "2xx"}
        _, durations = found["svc.request.duration"]
        (histogram,) = durations.histogram.data_points
        assert (histogram.count, histogram.sum, durations.unit) == (1, 0.005, "s")
        assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1


@pytest.mark.usefixtures("short_requests")
def test_collector_that_is_down_costs_bounded_memory_and_gets_what_was_queued() -> None:
    port, reports = closed_port(), list[str]()
    with exporting(f"http://127.0.0.1:{port}", max_bytes=100_000, reports=reports, seconds=0.0) as exporter:
        for number in range(5000):
            exporter.add("shop", LineRecord(BEGAN + number, "", "web", "stdout", "x" * 100))
        until(lambda: bool(reports))
        assert exporter.dropped["logs"] > 4500
        assert reports[0].startswith(f"the collector http://127.0.0.1:{port} does not accept all data: ")
        assert "refused" in reports[0]
    assert exporter.dropped["logs"] == 5000
    lost = [int(report.rpartition("; ")[2].split()[0]) for report in reports if "dropped" in report]
    assert sum(lost) == 5000  # The last report has those that waited until the end.


def test_metrics_that_fail_do_not_stop_the_records() -> None:
    failures: list[int] = []

    def fail() -> Sequence[Family]:
        failures.append(1)
        raise ZeroDivisionError

    with collecting() as collector:
        exporter = Exporter(
            parse_collector(collector.url),
            ByteBudget(1 << 20),
            metrics=fail,
            report=[].append,
            started_ns=BEGAN,
            max_bytes=1 << 20,
            metrics_seconds=0.05,
        )
        until(lambda: bool(failures))
        exporter.add("shop", LINE)
        until(lambda: exporter.sent["logs"] == 1)
        exporter.close(time.monotonic() + 60)


def test_collector_that_restarts_gets_the_queued_records() -> None:
    with collecting() as collector, exporting(collector.url) as exporter:
        collector.status = 500
        exporter.add("shop", LINE)
        until(lambda: collector.requests > 1)
        collector.status = 200
        until(lambda: exporter.sent["logs"] == 1)
        assert len(collector.logs) == 1 and not exporter.dropped


def test_outage_that_has_ended_is_not_reported_again() -> None:
    reports = list[str]()
    with collecting() as collector, exporting(collector.url, reports=reports) as exporter:
        collector.status = 500
        exporter.add("shop", LINE)
        until(lambda: collector.requests > 2)
        collector.status = 200
        until(lambda: exporter.sent["logs"] == 1)
        exporter._report_at = 0.0
        exporter.add("shop", LINE)
        until(lambda: exporter.sent["logs"] == 2)
    assert len(reports) == 1 and reports[0].endswith(": status 500")


def test_refused_records_are_dropped_and_counted_once() -> None:
    reports = list[str]()
    with collecting() as collector, exporting(collector.url, reports=reports) as exporter:
        collector.status = 400
        exporter.add("shop", LINE)
        until(lambda: exporter.dropped["logs"] == 1)
        collector.status = 200
        exporter.add("shop", LINE)
        until(lambda: exporter.sent["logs"] == 1)
    assert len(reports) == 1 and reports[0].endswith(": status 400; 1 record was dropped")


@pytest.mark.usefixtures("short_requests")
def test_stopped_exporter_returns_its_share_of_the_memory() -> None:
    budget = ByteBudget(20_000)
    exporter = Exporter(
        parse_collector(f"http://127.0.0.1:{closed_port()}"),
        budget,
        metrics=tuple,
        report=[].append,
        started_ns=BEGAN,
        max_bytes=1 << 20,
    )
    for _ in range(100):
        exporter.add("shop", LINE)
    assert not budget.take(20_000)
    exporter.stop()
    until(lambda: not exporter.running)
    assert budget.take(20_000) and exporter.dropped["logs"] == 100


@pytest.mark.usefixtures("short_requests")
def test_close_is_bounded_while_the_collector_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with exporting(url, seconds=0.2) as exporter:
            exporter.add("shop", LINE)
            connection, _ = silent.accept()
        assert exporter.dropped["logs"] == 1
        connection.close()
        until(lambda: not exporter.running)


def test_record_that_cannot_be_converted_does_not_stop_others() -> None:
    with collecting() as collector, exporting(collector.url) as exporter:
        exporter.add("shop", replace(ROOT, trace_id="no hex"))
        until(lambda: exporter.dropped["traces"] == 1)
        exporter.add("shop", ROOT)
        until(lambda: len(collector.spans) == 1)


@pytest.mark.parametrize("guarded", [False, True])
def test_headers_of_the_environment_are_for_the_operator(
    monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "secret=1")
    with (
        collecting() as collector,
        exporting(collector.url, headers={"x-token": "own"} if guarded else None) as exporter,
    ):
        exporter.add("shop", LINE)
        until(lambda: len(collector.headers) == 1)
        assert ("authorization" in collector.headers[0]) is not guarded
        if guarded:
            transport = {"host", "connection", "accept", "accept-encoding", "content-length"}
            own = {"content-type", "content-encoding", "user-agent"}
            assert set(collector.headers[0]) - transport == {*own, "x-token"}
            assert collector.headers[0]["x-token"] == "own"


def test_operators_certificate_and_proxy_are_not_used_for_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    port = closed_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "missing.pem")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    with collecting() as collector, exporting(collector.url, headers={}) as exporter:
        exporter.add("shop", LINE)
        until(lambda: len(collector.logs) == 1)


def resolving(monkeypatch: pytest.MonkeyPatch, answers: Sequence[str]) -> list[str]:
    """Resolve `collector.example` to one answer after the other; return the list of given ones."""
    addresses: list[str] = []
    original = socket.getaddrinfo

    def getaddrinfo(host: str, port: int | None, *args: int, **options: int) -> object:
        if host == "collector.example":
            addresses.append(answers[min(len(addresses), len(answers) - 1)])
            host = addresses[-1]
        return original(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return addresses


@pytest.mark.usefixtures("short_requests")
def test_project_reaches_no_private_address_by_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = list[str]()
    resolving(monkeypatch, ["127.0.0.1"])
    with collecting() as collector:
        url = collector.url.replace("127.0.0.1", "collector.example")
        with exporting(url, headers={}, reports=reports, seconds=0.0) as exporter:
            exporter.add("shop", LINE)
            until(lambda: bool(reports))
        with exporting(url) as exporter:  # The operator may.
            exporter.add("shop", LINE)
            until(lambda: exporter.sent["logs"] == 1)
        assert len(collector.logs) == 1
    assert "collector.example has the private address 127.0.0.1" in reports[0]


@pytest.mark.usefixtures("short_requests")
def test_project_connects_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "ATTEMPT_SECONDS", 0.01)
    addresses, reports = resolving(monkeypatch, ["192.31.196.1", "127.0.0.1"]), list[str]()
    with collecting() as collector:
        url = collector.url.replace("127.0.0.1", "collector.example")
        with exporting(url, headers={}, reports=reports, seconds=0.0) as exporter:
            exporter.add("shop", LINE)
            until(lambda: bool(reports))
        assert collector.requests == 0 and len(addresses) > 1


def test_answer_of_a_collector_is_read_in_part() -> None:
    with collecting() as collector, exporting(collector.url, headers={}) as exporter:
        collector.body = b"x" * (session_module.MAX_RESPONSE_BYTES * 4)
        exporter.add("shop", LINE)
        until(lambda: exporter.sent["logs"] == 1)
        exporter.add("shop", LINE)
        until(lambda: exporter.sent["logs"] == 2)


def test_adding_a_record_never_waits_for_the_collector() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with exporting(url, max_bytes=1 << 16, seconds=0.0) as exporter:
            exporter.add("shop", LINE)
            connection, _ = silent.accept()  # The exporter waits for an answer.
            threads = [threading.Thread(target=exporter.add, args=("shop", LINE)) for _ in range(300)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert exporter.dropped["logs"] > 100
            connection.close()
