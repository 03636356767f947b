"""Waiting for what another thread or process does, where nothing tells of it."""

import threading
import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not holds():
        assert time.monotonic() < end
        pause.wait(0.01)
