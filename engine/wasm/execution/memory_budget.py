"""Memory budget of a process: what runs usually take admits them, and what they take is measured.

The C API reports neither the memories of a running component nor their growth. So the pages that a run
touches are counted: each first touch of a page is a minor fault of the thread that polls the run. The
resident set of the process decides whether the budget is overrun.
"""

import os
import resource
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from engine.wasm.execution.config import MIB

BUDGET_SHARE = 0.8
"""Share of the memory of the machine, or of the cgroup, that is the default budget."""
ADMISSION_SHARE = 15 / 16
"""Share of the budget that admitted runs may reach. The rest is for runs that take more than usual."""
OVERRUN_SHARE = 17 / 16
"""Share of the budget above which a run within its usual peak is stopped, too."""
MIN_RUN_BYTES = MIB
"""Least charge for a run: its fiber's stack, its tables and its objects in the host."""
SAMPLE_SECONDS = 0.05
OTHER_SAMPLES = 3
"""Samples whose maximum counts as the memory that no run takes."""
GROWTH_SAMPLE_SECONDS = 0.002
"""Least interval of samples while runs grow beyond the budget."""
DECAY_SHIFT = 6
"""A run that takes less than usual reduces the usual peak by 1/64 of the difference."""
STREAM_SECONDS = 1.0
"""After this time a stream is charged what it has taken."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryProfile:
    """The bytes that a run of one live version of a resource usually takes.

    It is the declared limit until the first run has completed, or has streamed for a while.
    """

    __slots__ = ("measured", "usual")

    def __init__(self, limit: int) -> None:
        self.usual = limit
        self.measured = False

    def record(self, touched: int, *, typical: bool) -> None:
        """Record the peak of a run. Only typical runs, complete and in a cold slot, reduce the usual peak."""
        peak = max(touched, MIN_RUN_BYTES)
        if not self.measured:
            if typical:
                self.usual, self.measured = peak, True
        elif peak > self.usual:
            self.usual = peak
        elif typical:
            self.usual -= (self.usual - peak) >> DECAY_SHIFT


class Holding:
    """The slots that a project holds, and the bytes that are charged for its runs."""

    __slots__ = ("memory", "slots")

    def __init__(self) -> None:
        self.memory = self.slots = 0


class RunMemory:
    """The memory of one run in bytes: `charged` to the budget and to its project, `touched` as measured."""

    __slots__ = (
        "charged", "closing", "cold", "holding", "on_overrun", "profile", "retained", "stopping", "streams",
        "touched",
    )  # fmt: skip

    def __init__(self, profile: MemoryProfile) -> None:
        self.profile = profile
        self.cold = True
        """Whether the instance has a cold slot, where it touches every page first."""
        self.charged = self.touched = 0
        self.holding: Holding
        """That of its project, from `charge` on."""
        self.retained = 0
        """Bytes that its warm slot retains after the run."""
        self.closing = False
        """Whether the instance is closed on another thread, and its slot and memory are returned then."""
        self.on_overrun: Callable[[], None] | None = None
        """Stops the run."""
        self.stopping = False
        """Whether it was stopped, and returns its memory soon."""
        self.streams = False
        """Whether it has waited after the head of its response."""

    @property
    def excess(self) -> int:
        return self.touched - self.profile.usual


class MemoryBudget:
    """The budget in bytes, for one thread. `headroom` is what further runs may take."""

    def __init__(self, limit: int, measure: Callable[[], int] | None = None) -> None:
        """`measure` returns the resident bytes of the process."""
        self.limit = limit
        self._measure = measure or ResidentSet().read
        self._runs: dict[RunMemory, None] = {}
        self._charged = self._touched = 0
        self._sampled_at = 0.0
        self._others: deque[int] = deque(maxlen=OTHER_SAMPLES)
        self._waiting: list[Callable[[], None]] = []
        self._streams: deque[tuple[float, RunMemory]] = deque()
        """Runs that stream, and when they are charged what they have taken."""
        self.used = self.headroom = 0
        self._update_headroom()

    def _update_headroom(self) -> None:
        self._sampled_at = monotonic()
        self.used = self._measure()
        self._others.append(max(0, self.used - self._touched))
        # A sample is too low while a thread has closed an instance that is not yet discharged.
        self.headroom = int(self.limit * ADMISSION_SHARE) - max(self._others) - self._charged
        self._wake_waiting()

    @property
    def overrun(self) -> bool:
        """True if runs may overrun the budget: then none begins, unless no run has taken memory."""
        return self.headroom < self.limit * (ADMISSION_SHARE - 1) and self._touched > 0

    def when_free(self, wake: Callable[[], None]) -> None:
        """Call a function once the budget may not be `overrun` any more."""
        self._waiting.append(wake)

    def _wake_waiting(self) -> None:
        if self._waiting and not self.overrun:
            waiting, self._waiting = self._waiting, []
            for wake in waiting:
                wake()

    def charge(self, run: RunMemory, holding: Holding) -> None:
        """Charge what the run usually takes, to its project also."""
        run.holding = holding
        self._add_charge(run, run.profile.usual)
        self._runs[run] = None

    def _add_charge(self, run: RunMemory, size: int) -> None:
        run.charged += size
        run.holding.memory += size
        self._charged += size
        self.headroom -= size

    def grow(self, run: RunMemory, size: int) -> None:
        """Count bytes that a run has touched, and charge those above its charge."""
        run.touched += size
        self._touched += size
        if run.touched > run.charged:
            self._add_charge(run, run.touched - run.charged)

    def add_stream(self, run: RunMemory) -> None:
        """Charge a run that waits after the head of its response what it has taken, from a second later on.

        It may last for hours, and never complete. What it takes later is charged as it grows.
        """
        if not run.streams:
            run.streams = True
            self._streams.append((monotonic() + STREAM_SECONDS, run))

    def _settle_streams(self) -> None:
        now = monotonic()
        while self._streams and self._streams[0][0] <= now:
            _, run = self._streams.popleft()
            if run not in self._runs:
                continue
            if not run.profile.measured:
                run.profile.record(run.touched, typical=run.cold)
            self._add_charge(run, max(run.touched, MIN_RUN_BYTES) - run.charged)

    def check_growth(self) -> None:
        """Sample if the runs may overrun the budget; called while a run computes."""
        if self.overrun and monotonic() >= self._sampled_at + GROWTH_SAMPLE_SECONDS:
            self.sample()

    def discharge(self, run: RunMemory) -> None:
        """Return what was charged for a run whose instance is closed."""
        charged, run.charged = run.charged, 0
        run.holding.memory -= charged
        self._charged -= charged
        self.headroom += charged - run.retained
        self._touched -= run.touched
        self._runs.pop(run, None)
        if self._waiting:
            self._wake_waiting()

    def sample(self) -> None:
        """Measure the process. If it overruns the budget, stop the runs furthest above their usual peak.

        As many are stopped as free the memory above the budget. While every run is within its usual peak, the
        budget may be overrun by another 1/16.
        """
        self._settle_streams()
        self._update_headroom()
        above = self.used - self.limit
        if above <= 0:
            return
        excused = self.used <= self.limit * OVERRUN_SHARE
        above -= sum(run.touched for run in self._runs if run.stopping or run.closing)
        for run in sorted(self._runs, key=lambda run: (max(run.excess, 0), run.touched), reverse=True):
            if above <= 0 or (excused and run.excess <= 0):
                return
            if run.on_overrun is not None and not run.stopping and run.touched >= MIN_RUN_BYTES:
                run.stopping = True
                above -= run.touched
                run.on_overrun()


class ResidentSet:
    """Reader of the resident bytes of a process; 0 where the system does not report them."""

    def __init__(self, process: int | None = None) -> None:
        """Read this process, or another one by its id."""
        try:
            self._file: int | None = os.open(f"/proc/{process or 'self'}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def read(self) -> int:
        """Return the resident bytes; 0 once the process has exited."""
        if self._file is None:
            return 0
        try:
            return int(os.pread(self._file, 128, 0).split()[1]) * _PAGE_BYTES
        except ProcessLookupError:
            return 0

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


_OF_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
"""Linux only."""


def touched_bytes() -> int:
    """Return the bytes of the pages that this thread has touched first, since it began."""
    return 0 if _OF_THREAD is None else resource.getrusage(_OF_THREAD).ru_minflt * _PAGE_BYTES


def default_budget() -> int:
    """Return the default budget: a share of the memory of the machine, or of the process's cgroup."""
    return int(machine_memory() * BUDGET_SHARE)


def machine_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process may use: RAM, or the least limit of its cgroups (v1 and v2)."""
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([ram, *_cgroup_limits(root)])


def _cgroup_limits(root: Path) -> list[int]:
    limits = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        group = mount / path.lstrip("/")
        # In a container, the mounted root is the process's own group.
        for folder in (group, *group.parents):
            limits.append(_limit(folder / ("memory.limit_in_bytes" if controllers else "memory.max")))
            if folder == mount:
                break
    return [limit for limit in limits if limit is not None]


def _limit(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
