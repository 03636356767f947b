"""How long a thread computes, in nanoseconds.

The thread's own clock (`CLOCK_THREAD_CPUTIME_ID`) is a system call: to read it before and after costs a
short run 2 %. The wall clock costs a tenth, and says the same of a while in which the thread waits neither
for a processor nor for the interpreter's lock. So the wall clock measures what is short. The thread's own is
read now and then, and corrects what is not: whoever waits for something mostly waits for longer than that.
"""

from time import monotonic_ns, thread_time_ns

MAX_WALL_ONLY_NS = 500_000
"""What is measured by the wall clock alone. By so much, at most, a while in which the thread waited may count
for more than was computed."""


class CpuClock:
    """Measures one while after the other. Use it on one thread."""

    def __init__(self) -> None:
        self._read_ns = self._thread_ns = 0

    def start(self) -> int:
        """Begin a while; return the moment (`time.monotonic_ns`), for `since`."""
        now = monotonic_ns()
        if now - self._read_ns > MAX_WALL_ONLY_NS:
            self._thread_ns = thread_time_ns()
            self._read_ns = now = monotonic_ns()
        return now

    def elapsed(self, began: int) -> int:
        """Return what was computed in the while that began last."""
        passed = monotonic_ns() - began
        if passed <= MAX_WALL_ONLY_NS:
            return passed
        thread_ns = thread_time_ns()
        computed = min(passed, thread_ns - self._thread_ns)
        self._read_ns, self._thread_ns = began + passed, thread_ns
        return computed
