"""Priority of threads that compute for guests, below that of the event loop."""

import os
import sys
import threading

_NICE = 5
_MAX_NICE = 19


def yield_to_loop() -> None:
    """Lower the priority of this thread, so that the event loop runs first (Linux only: nice(2))."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(_MAX_NICE, nice + _NICE))
