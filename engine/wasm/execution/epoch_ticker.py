"""Has an epoch end when guest code computes for long: then it gives way (`drive.py`).

Owns the thread that ends it. The event loop puts its alarm off each time that it lets guest code compute; so
the thread is woken, which costs the loop some 500 µs, only where guest code holds the loop for long. While
guest code computes in worker threads, epochs end one after the other.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.wasm.execution.timer import create_timer

EPOCH_SECONDS = 0.02
REARM_NS = 5_000_000
"""How long the alarm is not put off again: code on the loop may have so much less than `SECONDS`."""


class EpochTicker:
    """Call everything but `close` on the event loop's thread."""

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

    def touch(self, now_ns: int) -> None:
        """Have an epoch end in `SECONDS`, unless this is called again: guest code goes on, on this thread.

        `now_ns` is `time.monotonic_ns()`.
        """
        if now_ns >= self._rearm_at_ns and not self._workers:
            self._rearm_at_ns = now_ns + REARM_NS
            self._timer.set(EPOCH_SECONDS)

    @contextmanager
    def worker_active(self) -> Iterator[None]:
        """Have epochs end while guest code computes on another thread."""
        if not self._workers:
            self._timer.set(EPOCH_SECONDS)
        self._workers += 1
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
