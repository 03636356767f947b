"""One-shot timers that can be rearmed without waking the waiting thread.

A thread that wakes takes the interpreter's lock from the computing one, which costs both 500 µs on a busy
system. Linux timers avoid that (timerfd_create(2)); elsewhere the thread checks whether its timer was
rearmed. Set a timer from any thread and wait on one thread. It may fire more often than it was set.
"""

import ctypes
import os
import time
from threading import Event
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
        """Close the file; no thread may be waiting."""
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
    """Return a timerfd if the system supports it, otherwise a SleepTimer."""
    return TimerfdTimer() if hasattr(_system, "timerfd_create") else SleepTimer()
