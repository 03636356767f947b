"""Polls of one run, on the event loop's thread or on another, with the CPU time and the memory they take.

Guest code is polled on the loop's thread until it has computed for `OFFLOAD_AFTER_NS` when an epoch ends.
From then until it waits again, it is polled in a worker thread. A guest that usually computes longer begins
there.
"""

from functools import partial
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING

from engine.wasm.capi.wasmtime import Invocation
from engine.wasm.execution.memory_budget import MemoryBudget, RunMemory, touched_bytes

if TYPE_CHECKING:
    from engine.wasm.execution.runner import Runner

OFFLOAD_AFTER_NS = 5_000_000
"""A guest that has computed this long without waiting moves to a worker thread when an epoch ends."""
LONG_STRETCH_NS = 10_000_000
"""A guest whose stretches usually take this long starts them in a worker thread, which costs 1 ms of CPU."""
MAX_UNMEASURED_NS = 200_000
"""A run in a warm slot touches few pages first; its memory is measured only when it computes this long."""
_MEAN_SHIFT = 2


MAX_WALL_ONLY_NS = 500_000
"""Longest interval with the wall clock only; a blocked thread is over-counted by at most this much."""
MAX_AGE_NS = 100_000
"""Age at which a reading of the CPU clock is too old for the start of an interval.

A thread with a newer one is taken to have computed since, so a blocked thread is under-counted by at most
this much.
"""


class CpuClock:
    """Measures successive intervals on one thread, at the cost of a wall clock for short ones.

    The thread's CPU clock (`CLOCK_THREAD_CPUTIME_ID`) is a system call: reading it before and after costs a
    short run 2 %. The wall clock costs a tenth of that, and gives the same result while the thread waits
    neither for a processor nor for the interpreter's lock. So short intervals use the wall clock only. Longer
    ones use the CPU clock, because a thread that waits mostly waits for longer than that.
    """

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


class UsualStretch:
    """The mean CPU time of a guest's recent stretches: what it computes between two waits."""

    __slots__ = ("_mean_ns", "long")

    def __init__(self) -> None:
        self._mean_ns = 0
        self.long = False
        """Whether a stretch should begin in a worker thread."""

    def record(self, nanoseconds: int) -> None:
        """Add a stretch."""
        self._mean_ns += (nanoseconds - self._mean_ns) >> _MEAN_SHIFT
        self.long = self._mean_ns >= LONG_STRETCH_NS


class Polls:
    """The polls of one run.

    Call `poll`, or `poll_in_thread` if `offloaded`, until it returns True or the run waits, then
    `begin_stretch`.
    """

    __slots__ = ("_memory", "_runner", "_since_ns", "_usual", "compute_ns", "has_begun", "offloaded")

    def __init__(self, runner: "Runner", usual: UsualStretch, memory: RunMemory) -> None:
        self._runner = runner
        self._usual = usual
        self._memory = memory
        self._since_ns = 0
        self.compute_ns = 0
        self.has_begun = False
        """Whether guest code has run."""
        self.offloaded = usual.long
        """Whether the next poll is in a worker thread."""

    def begin_stretch(self) -> None:
        """Record the stretch that ends: the guest waits, or has completed."""
        self._usual.record(self.compute_ns - self._since_ns)
        self._since_ns, self.offloaded = self.compute_ns, self._usual.long

    def continue_stretch(self) -> None:
        """Choose the thread of the next poll, after an epoch has ended."""
        self.offloaded = self.offloaded or self.compute_ns - self._since_ns >= OFFLOAD_AFTER_NS

    async def poll_in_thread(self, invocation: Invocation, project: str) -> bool:
        """Poll once in a worker thread; return whether the invocation has completed.

        Does nothing if the run would begin while the budget is overrun: it may have waited for the thread.
        """
        budget = None if self.has_begun else self._runner.budget
        done, computed_ns, touched = await self._runner.run_in_thread(
            project, partial(_poll_in_thread, invocation, budget)
        )
        self.has_begun = self.has_begun or computed_ns > 0
        self.compute_ns += computed_ns
        self._runner.budget.grow(self._memory, touched)
        return done

    def poll(self, invocation: Invocation) -> bool:
        """Poll once on this thread; return whether the invocation has completed."""
        runner = self._runner
        runner.epochs.touch()
        touched = touched_bytes() if self._memory.cold else runner.touched
        self.has_begun = True
        began = runner.clock.start()
        done = invocation.poll()
        elapsed = runner.clock.elapsed(began)
        self.compute_ns += elapsed
        runner.turns.record(elapsed)
        if self._memory.cold or elapsed > MAX_UNMEASURED_NS:
            runner.touched = touched_bytes()
            runner.budget.grow(self._memory, runner.touched - touched)
        return done


def _poll_in_thread(invocation: Invocation, budget: MemoryBudget | None) -> tuple[bool, int, int]:
    """Poll on this thread; return whether the call completed, the CPU time, and the bytes touched first.

    Does nothing if a `budget` is given and overrun.
    """
    if budget is not None and budget.overrun:
        return False, 0, 0
    began, touched = thread_time_ns(), touched_bytes()
    done = invocation.poll()
    return done, thread_time_ns() - began, touched_bytes() - touched
