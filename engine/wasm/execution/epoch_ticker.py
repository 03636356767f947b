"""Has an epoch end when guest code computes for long: then it gives way (`drive.py`).

Owns the thread that ends it. The event loop puts its alarm off each time that it lets guest code compute; so
the thread is woken, which costs the loop some 500 µs, only where guest code holds the loop for long. While
guest code computes in worker threads, epochs end one after the other.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.wasm.execution.timer import alarm

SECONDS = 0.02
PUT_OFF_NS = 5_000_000
"""How long the alarm is not put off again: code on the loop may have so much less than `SECONDS`."""


class Epochs:
    """Call everything but `close` on the event loop's thread."""

    def __init__(self, increment: Callable[[], None]) -> None:
        """`increment` ends an epoch; it is called on another thread."""
        self._increment = increment
        self._alarm = alarm()
        self._aside = 0
        self._next_ns = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="epoch", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            self._alarm.wait()
            if self._closed:
                return
            self._increment()
            if self._aside:
                self._alarm.set(SECONDS)

    def computing(self, now_ns: int) -> None:
        """Have an epoch end in `SECONDS`, unless this is called again: guest code goes on, on this thread.

        `now_ns` is `time.monotonic_ns()`.
        """
        if now_ns >= self._next_ns and not self._aside:
            self._next_ns = now_ns + PUT_OFF_NS
            self._alarm.set(SECONDS)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Have epochs end while guest code computes on another thread."""
        if not self._aside:
            self._alarm.set(SECONDS)
        self._aside += 1
        try:
            yield
        finally:
            self._aside -= 1

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._alarm.set(1e-9)
        self._thread.join()
        self._alarm.close()
