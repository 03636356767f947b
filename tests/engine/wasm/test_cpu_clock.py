"""CPU time of a thread: all computation, and almost nothing of waiting.

An interval may be over-counted by `MAX_WALL_ONLY_NS`, and under-counted by `MAX_AGE_NS`.
"""

import time

from engine.wasm.execution.execution import MAX_AGE_NS, MAX_WALL_ONLY_NS, CpuClock


def compute(nanoseconds: int) -> int:
    """Compute for this long; return the actual duration in nanoseconds."""
    began = time.thread_time_ns()
    while (spent := time.thread_time_ns() - began) < nanoseconds:
        pass
    return spent


def test_short_interval_uses_wall_clock() -> None:
    clock = CpuClock()
    for _ in range(100):
        outer, used = time.monotonic_ns(), time.thread_time_ns()
        began = clock.start()
        spent = compute(20_000)
        result = clock.elapsed(began)
        used = time.thread_time_ns() - used
        assert spent - MAX_AGE_NS <= result <= min(time.monotonic_ns() - outer, used + MAX_WALL_ONLY_NS)


def test_long_interval_uses_cpu_time() -> None:
    clock = CpuClock()
    for nanoseconds in (MAX_WALL_ONLY_NS, 5_000_000, 50_000_000):
        used = time.thread_time_ns()
        began = clock.start()
        spent = compute(nanoseconds)
        result = clock.elapsed(began)
        assert spent - MAX_AGE_NS <= result <= time.thread_time_ns() - used + MAX_WALL_ONLY_NS


def test_long_wait_is_not_counted() -> None:
    clock = CpuClock()
    for seconds in (0.001, 0.05):
        used = time.thread_time_ns()
        began = clock.start()
        time.sleep(seconds)
        result = clock.elapsed(began)
        assert result <= time.thread_time_ns() - used + MAX_WALL_ONLY_NS


def test_time_between_intervals_is_not_counted() -> None:
    clock = CpuClock()
    for between in (100_000, 10_000_000):
        for wait in (0, 0.01):
            compute(between)
            used = time.thread_time_ns()
            began = clock.start()
            time.sleep(wait)
            compute(100_000)
            result = clock.elapsed(began)
            assert result <= time.thread_time_ns() - used + MAX_WALL_ONLY_NS
