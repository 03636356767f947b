"""Work that many owners have from time to time, on a few threads that all of them share."""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from engine.files.reserve import share_of_files

THREADS = 4
IDLE_SECONDS = 60.0
"""Time without work after which an owner closes its file."""
MAX_HOLDING = 256
"""Maximum number of owners with an open file, if the limit of open files permits."""
FILES = 2
"""Open files of an owner, with those of SQLite's log."""
_log = logging.getLogger("svc.recurring")
_lock = threading.Lock()
_due_changed, _free, _ended = (threading.Condition(_lock) for _ in range(3))
"""For the one idle thread that waits for the next due time, for the other idle ones, and for `close`."""
_queue: list[tuple[float, int, "Recurring"]] = []
"""When to look at an owner: at its due time, or earlier."""
_numbers = itertools.count()
_holding: OrderedDict["Recurring", None] = OrderedDict()
"""Owners with an open file, the one whose last run was longest ago first."""
_threads: list[threading.Thread] = []
_waits_for_due = False


class Recurring:
    """Work of one owner, with at most one run in progress. Its methods may be called from any thread.

    An owner whose run returns `IDLE_SECONDS` has a file open. A run with nothing to do closes it. Beyond
    `MAX_HOLDING` owners, the one whose last run was longest ago runs before all others.
    """

    def __init__(self, work: Callable[[], float | None]) -> None:
        """`work` returns the seconds until its next run, or `None` to wait for the next `wake`."""
        self._work = work
        self._due: float | None = None
        self._queued: set[float] = set()
        self._running = self._closed = False

    def wake(self, delay: float) -> None:
        """Run the work after a delay in seconds, unless a run is due earlier."""
        due = time.monotonic() + delay
        if (planned := self._due) is not None and planned <= due:
            return
        with _lock:
            if not self._closed and (self._due is None or due < self._due):
                self._plan(due)

    def close(self) -> None:
        """Wait for the run in progress, and begin no other."""
        with _lock:
            self._closed, self._due = True, None
            _holding.pop(self, None)
            while self._running:
                _ended.wait()

    def _plan(self, due: float) -> None:
        self._due = due
        if not self._running and due < min(self._queued, default=math.inf):
            self._queued.add(due)
            heapq.heappush(_queue, (due, next(_numbers), self))
            if len(_threads) < min(THREADS, len(_queue)):
                _threads.append(threading.Thread(target=_work, name="recurring", daemon=True))
                _threads[-1].start()
            (_due_changed if _waits_for_due else _free).notify()

    def _run(self) -> None:
        delay = None
        try:
            delay = self._work()
        except Exception:
            _log.exception("recurring work failed")
        with _lock:
            self._running = False
            _holding.pop(self, None)
            if delay == IDLE_SECONDS and not self._closed:
                _holding[self] = None  # It has an open file.
            if len(_holding) > min(MAX_HOLDING, share_of_files(FILES)):
                first, _ = _holding.popitem(last=False)
                first._plan(-math.inf)  # Before runs that are due, which would open further files.
            times = [] if self._due is None else [self._due]
            if delay is not None:
                times.append(time.monotonic() + delay)
            if times and not self._closed:
                self._plan(min(times))
            _ended.notify_all()


def _work() -> None:
    global _waits_for_due
    while True:
        with _lock:
            while (owner := _take()) is None:
                if _waits_for_due:
                    _free.wait()
                    continue
                _waits_for_due = True
                _due_changed.wait(_queue[0][0] - time.monotonic() if _queue else None)
                _waits_for_due = False
            _free.notify()
        owner._run()


def _take() -> Recurring | None:
    """Return the next owner with a run that is due, and begin this run."""
    while _queue and _queue[0][0] <= time.monotonic():
        at, _, owner = heapq.heappop(_queue)
        owner._queued.discard(at)
        if owner._due is None or owner._running:
            continue
        if owner._due <= at:
            owner._due, owner._running = None, True
            return owner
        owner._plan(owner._due)
    return None
