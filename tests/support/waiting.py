"""Polling for state changes of other threads and processes."""

import threading
import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 60.0, *, pause: float = 0.01) -> None:
    """Wait until a condition holds, with a pause between attempts. Fails after `seconds`."""
    end, never = time.monotonic() + seconds, threading.Event()
    while not holds():
        assert time.monotonic() < end
        never.wait(pause)
