"""The window of rates, with a manual clock."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.manifest.model import Mount, Project, Resource
from engine.timeline.rates import RateMeter, RateWindow
from engine.timeline.record import LineRecord, PlatformRecord, RequestRecord, StructuredRecord
from tests.engine.timeline.records import REQUEST

MS = 1_000_000
WEB = Resource("web", "static", Path("/"), mounts=(Mount("/api/*", "api"), Mount("/api/old", "api")))
SHOP = Project("shop", Path("/"), {"web": WEB, "api": Resource("api", "js", Path("/"))})


class Clock:
    """A manual clock in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(clock: Clock) -> RateMeter:
    return RateMeter(lambda: SHOP, clock)


def request(
    resource: str = "web",
    *,
    target: str = "/",
    status: int = 200,
    wall_ns: int = 2 * MS,
    peak: int | None = None,
    span: str = "a",
    parent: str = "",
    root: bool = True,
) -> RequestRecord:
    return replace(
        REQUEST,
        span_id=span,
        parent=parent,
        resource=resource,
        target=target,
        status=status,
        wall_ns=wall_ns,
        peak_memory=peak,
        root=root,
    )


def test_window_is_empty_initially(rates: RateMeter) -> None:
    assert rates.window() == RateWindow(1.0, {}, {})


def test_requests_are_reported_per_second(rates: RateMeter, clock: Clock) -> None:
    clock.now += 100
    for _ in range(60):
        rates(request())
    clock.now += 9.5
    window = rates.window(10)
    assert window.seconds == pytest.approx(10.5)
    assert window.resources["web"].requests == pytest.approx(60 / 10.5)


def test_old_seconds_leave_window(rates: RateMeter, clock: Clock) -> None:
    rates(request())
    clock.now += 30
    assert rates.window().resources["web"].requests > 0
    assert rates.window(10).resources == {}
    clock.now += 31
    assert rates.window().resources == {}


def test_rates_after_start_use_elapsed_time(rates: RateMeter, clock: Clock) -> None:
    for _ in range(8):
        rates(request())
    clock.now += 4
    assert rates.window() == rates.window(60)
    assert (rates.window().seconds, rates.window().resources["web"].requests) == (4.0, 2.0)


def test_failures_count_status_500_and_above(rates: RateMeter) -> None:
    for status in (200, 304, 404, 499, 500, 503, 504, 200):
        rates(request(status=status))
    assert rates.window().resources["web"].failures == pytest.approx(3 / 8)


def test_window_reports_peak_memory(rates: RateMeter, clock: Clock) -> None:
    for peak in (None, 7, 9, 8):
        rates(request("api", peak=peak))
        clock.now += 1
    rates(request("web"))
    window = rates.window()
    assert (window.resources["api"].peak_memory, window.resources["web"].peak_memory) == (9, None)


def test_p95_covers_95_of_100(rates: RateMeter) -> None:
    for number in range(100):
        rates(request(wall_ns=(1 + number) * MS))
    p95 = rates.window().resources["web"].p95_ns
    assert p95 == pytest.approx(95 * MS, rel=0.07)


@given(st.integers(0, 1 << 62))
def test_durations_are_accurate_to_seven_percent(wall_ns: int) -> None:
    rates = RateMeter(lambda: SHOP)
    rates(request(wall_ns=wall_ns))
    assert rates.window().resources["web"].p95_ns == pytest.approx(wall_ns, rel=0.07)


def test_mount_counts_its_requests(rates: RateMeter, clock: Clock) -> None:
    for target in ("/api/x?y=1", "/api/old", "/api/z"):
        rates(request("api", target=target, span="inner", parent="outer", root=False))
        rates(request("web", target=target, span="outer"))
    rates(request("web", target="/api/none", span="own"))
    clock.now += 1
    assert rates.window().mounts == {("web", "/api/*"): 2.0, ("web", "/api/old"): 1.0}


def test_structured_records_count_and_lines_do_not(rates: RateMeter) -> None:
    rates(
        StructuredRecord(
            time_ns=1,
            request_id="r",
            trace_id="t",
            span_id="s",
            resource="api",
            severity="INFO",
            body="hello",
            attributes={},
        )
    )
    rates(LineRecord(1, "r", "api", "stdout", "hello"))
    rates(PlatformRecord(1, "web", "INFO", "built"))
    window = rates.window()
    assert {name: rate.records for name, rate in window.resources.items()} == {"api": 1.0}
    assert window.resources["api"].requests == 0 and window.resources["api"].p95_ns is None


def test_unfinished_fronts_are_dropped(rates: RateMeter) -> None:
    for number in range(30_000):
        rates(request("api", target="/api/x", span="i", parent=str(number), root=False))
    rates(request("web", target="/api/x", span="29999"))
    assert set(rates.window().mounts) == {("web", "/api/*")}


def test_responses_before_the_first_build_are_no_failures(rates: RateMeter) -> None:
    rates(replace(request("web", status=503), code="not-ready"))
    rates(request("web"))
    rates(replace(request("api", status=503), code="crashed"))
    resources = rates.window().resources
    assert (resources["web"].failures, resources["api"].failures) == (0.0, 1.0)


def test_history_has_the_requests_of_each_second(rates: RateMeter, clock: Clock) -> None:
    rates(request())
    clock.now += 2
    rates(request())
    rates(request())
    window = rates.window()
    history = window.resources["web"].history
    assert len(history) == 60 and history[-3:] == (1, 0, 2)
    assert rates.window(1).resources["web"].history == (2,)
