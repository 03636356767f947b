"""Thread that ends an epoch when guest code computes for long, so that the guest yields (`execution.py`).

The event loop rearms the timer each time it runs guest code. The thread therefore wakes, which costs the loop
about 500 µs, only if guest code occupies the loop for long. While guest code runs in worker threads, epochs
end one after another.

Timers can be rearmed without waking the thread, which would take the interpreter's lock from the computing
one. Linux timers do that (timerfd_create(2)); elsewhere the thread checks whether its timer was rearmed. Set
a timer from any thread and wait on one thread. It may fire more often than it was set.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic_ns
from typing import TypeAlias

_system = ctypes.PyDLL(None, use_errno=True)
_Setting = ctypes.c_long * 4
"""A `struct itimerspec`: interval (none) and expiration, in seconds and nanoseconds."""


class TimerfdTimer:
    """A Linux timerfd."""

    def __init__(self) -> None:
        """Raises `OSError` if the process cannot open more files."""
        self._file = _system.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def set(self, seconds: float) -> None:
        """Fire after `seconds` (above 0) instead of at the previously set time."""
        whole_seconds, part = divmod(max(1, int(seconds * 1e9)), 1_000_000_000)
        _system.timerfd_settime(self._file, 0, _Setting(0, 0, whole_seconds, part), None)

    def wait(self) -> None:
        """Wait until the timer fires; forever if it is not set."""
        os.read(self._file, 8)

    def close(self) -> None:
        os.close(self._file)


class SleepTimer:
    """A portable timer."""

    def __init__(self) -> None:
        self._fires_at = 0.0
        self._set = Event()

    def set(self, seconds: float) -> None:
        """Fire after `seconds`, or at the previously set time if that is later."""
        self._fires_at = time.monotonic() + seconds
        self._set.set()

    def wait(self) -> None:
        """Wait until the timer fires; forever if it is not set."""
        self._set.wait()
        self._set.clear()
        while (remaining := self._fires_at - time.monotonic()) > 0:
            time.sleep(remaining)

    def close(self) -> None:
        """Do nothing: a SleepTimer holds no system resource."""


Timer: TypeAlias = TimerfdTimer | SleepTimer


def create_timer() -> Timer:
    return TimerfdTimer() if hasattr(_system, "timerfd_create") else SleepTimer()


EPOCH_SECONDS = 0.02
REARM_NS = 5_000_000
"""Minimum interval between two rearms: code on the loop may get this much less than `EPOCH_SECONDS`."""


class EpochTicker:
    """Call all methods except `close` on the event loop's thread."""

    def __init__(self, increment: Callable[[], None]) -> None:
        """`increment` ends an epoch; it is called on another thread."""
        self._increment = increment
        self._timer = create_timer()
        self._workers = 0
        self._rearm_at_ns = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="epoch", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            self._timer.wait()
            if self._closed:
                return
            self._increment()
            if self._workers:
                self._timer.set(EPOCH_SECONDS)

    def touch(self) -> None:
        """End an epoch in `EPOCH_SECONDS` unless called again; guest code continues on this thread."""
        now_ns = monotonic_ns()
        if now_ns >= self._rearm_at_ns and not self._workers:
            self._rearm_at_ns = now_ns + REARM_NS
            self._timer.set(EPOCH_SECONDS)

    @contextmanager
    def worker_active(self) -> Iterator[None]:
        """End epochs continuously while guest code runs on another thread."""
        # This thread may be suspended until the timer fires, which continues only if workers are counted.
        self._workers += 1
        if self._workers == 1:
            self._timer.set(EPOCH_SECONDS)
        try:
            yield
        finally:
            self._workers -= 1

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._timer.set(1e-9)
        self._thread.join()
        self._timer.close()
