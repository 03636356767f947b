"""CPU time of a thread: all computation, and almost nothing of waiting."""

import time

from engine.wasm.execution.execution import MAX_AGE_NS, MAX_WALL_ONLY_NS, CpuClock

UNSURE_NS = MAX_WALL_ONLY_NS + 200_000
"""Maximum that is over-counted in an interval; the rest is the test's own work."""


def compute(nanoseconds: int) -> int:
    """Compute for this long; return the actual duration in nanoseconds."""
    began = time.thread_time_ns()
    while (spent := time.thread_time_ns() - began) < nanoseconds:
        pass
    return spent


def test_short_interval_uses_wall_clock() -> None:
    clock = CpuClock()
    for _ in range(100):
        outer = time.monotonic_ns()
        began = clock.start()
        spent = compute(20_000)
        result = clock.elapsed(began)
        assert spent - MAX_AGE_NS <= result <= min(time.monotonic_ns() - outer, spent + UNSURE_NS)


def test_long_interval_uses_cpu_time() -> None:
    clock = CpuClock()
    for nanoseconds in (MAX_WALL_ONLY_NS, 5_000_000, 50_000_000):
        began = clock.start()
        spent = compute(nanoseconds)
        assert spent - MAX_AGE_NS <= clock.elapsed(began) <= spent + UNSURE_NS


def test_long_wait_is_not_counted() -> None:
    clock = CpuClock()
    for seconds in (0.001, 0.05):
        began = clock.start()
        time.sleep(seconds)
        assert clock.elapsed(began) <= UNSURE_NS


def test_time_between_intervals_is_not_counted() -> None:
    clock = CpuClock()
    for between in (100_000, 10_000_000):
        for wait in (0, 0.01):
            compute(between)
            began = clock.start()
            time.sleep(wait)
            spent = compute(100_000)
            assert clock.elapsed(began) <= spent + UNSURE_NS
