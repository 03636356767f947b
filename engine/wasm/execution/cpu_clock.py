"""CPU time of a thread in nanoseconds, at the cost of a wall clock for short intervals.

The thread's CPU clock (`CLOCK_THREAD_CPUTIME_ID`) is a system call: reading it before and after costs a short
run 2 %. The wall clock costs a tenth of that, and gives the same result while the thread waits neither for a
processor nor for the interpreter's lock. So short intervals use the wall clock only. Longer ones use the CPU
clock, because a thread that waits mostly waits for longer than that.
"""

from time import monotonic_ns, thread_time_ns

MAX_WALL_ONLY_NS = 500_000
"""Longest interval with the wall clock only; a blocked thread is over-counted by at most this much."""
MAX_AGE_NS = 100_000
"""Age at which a reading of the CPU clock is too old for the start of an interval.

A thread with a newer one is taken to have computed since, so a blocked thread is under-counted by at most
this much.
"""


class CpuClock:
    """Measures successive intervals on one thread."""

    def __init__(self) -> None:
        self._read_ns = self._thread_ns = self._age_ns = 0

    def start(self) -> int:
        """Start an interval; return the time (`time.monotonic_ns`) for `elapsed`."""
        now = monotonic_ns()
        self._age_ns = now - self._read_ns
        if self._age_ns > MAX_AGE_NS:
            self._thread_ns, self._age_ns = thread_time_ns(), 0
            self._read_ns = now = monotonic_ns()
        return now

    def elapsed(self, began: int) -> int:
        """Return the CPU time of the interval started last."""
        passed = monotonic_ns() - began
        if passed <= MAX_WALL_ONLY_NS:
            return passed
        thread_ns = thread_time_ns()
        computed = max(0, min(passed, thread_ns - self._thread_ns - self._age_ns))
        self._read_ns, self._thread_ns = began + passed, thread_ns
        return computed
