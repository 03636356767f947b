"""Polling for state changes of other threads and processes."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def until(holds: Callable[[], T], seconds: float = 60.0, *, pause: float = 0.01) -> T:
    """Wait until a condition holds, and return its value. Fails after `seconds`; pauses between attempts."""
    end, never = time.monotonic() + seconds, threading.Event()
    while not (value := holds()):
        assert time.monotonic() < end
        never.wait(pause)
    return value


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def arrived_singly(times: Sequence[float], seconds: float) -> bool:
    """Return whether three arrivals in a row were `seconds` apart: those of one buffer are not."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return any(min(pair) > seconds for pair in pairwise(gaps))
