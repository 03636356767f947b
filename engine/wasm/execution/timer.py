"""An alarm that is put off without waking the thread that waits for it.

Whoever is woken takes the interpreter's lock from who computes: 500 µs of both, when they are busy. Linux
has timers for that, which are files (timerfd_create(2)); elsewhere the thread looks whether its alarm was put
off. Set an alarm from any thread, wait for it on one. It may ring more often than it was set.
"""

import ctypes
import os
import time
from threading import Event
from typing import TypeAlias

_system = ctypes.PyDLL(None, use_errno=True)
_Setting = ctypes.c_long * 4
"""A `struct itimerspec`: the interval, of which there is none, and when it rings: seconds and nanoseconds."""


class TimerfdTimer:
    """An alarm by a timer of Linux."""

    def __init__(self) -> None:
        """Raise `OSError` where the process may open no more files."""
        self._file = _system.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def set(self, seconds: float) -> None:
        """Ring after so long (above 0), and not when it was to ring before."""
        whole, part = divmod(max(1, int(seconds * 1e9)), 1_000_000_000)
        _system.timerfd_settime(self._file, 0, _Setting(0, 0, whole, part), None)

    def wait(self) -> None:
        """Wait until it rings; for ever, if it is not set."""
        os.read(self._file, 8)

    def close(self) -> None:
        """Give the file back; nobody may wait any more."""
        os.close(self._file)


class SleepTimer:
    """An alarm for every system."""

    def __init__(self) -> None:
        self._fires_at = 0.0
        self._set = Event()

    def set(self, seconds: float) -> None:
        """Ring after so long, or when it was to ring before if that is later than this."""
        self._fires_at = time.monotonic() + seconds
        self._set.set()

    def wait(self) -> None:
        """Wait until it rings; for ever, if it is not set."""
        self._set.wait()
        self._set.clear()
        while (left := self._fires_at - time.monotonic()) > 0:
            time.sleep(left)

    def close(self) -> None:
        """There is nothing to give back."""


Timer: TypeAlias = TimerfdTimer | SleepTimer


def create_timer() -> Timer:
    """Return the better alarm, where this system has it."""
    return TimerfdTimer() if hasattr(_system, "timerfd_create") else SleepTimer()
