"""Thread that ends an epoch when guest code computes for long, so that the guest yields (`execution.py`).

The event loop rearms the timer each time it runs guest code. The thread therefore wakes, which costs the loop
about 500 µs, only if guest code occupies the loop for long. While guest code runs in worker threads, epochs
end one after another.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic_ns

from engine.wasm.execution.timer import create_timer

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
        """Stop the thread."""
        self._closed = True
        self._timer.set(1e-9)
        self._thread.join()
        self._timer.close()
