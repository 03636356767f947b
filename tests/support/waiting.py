"""Polling for state changes of other threads and processes."""

import threading
import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition holds. Fails after `seconds`."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not holds():
        assert time.monotonic() < end
        pause.wait(0.01)
