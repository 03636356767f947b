"""A thread that interrupts statements above their limits.

SQLite calls a progress handler after a number of steps only, and a step may take long. It notices an
interrupt at the next jump of the statement.
"""

import threading
import time
from abc import ABC, abstractmethod

import apsw

CHECK_SECONDS = 0.02
"""Interval of the checks."""


class Watched(ABC):
    """The statements of a connection between `watch` and `unwatch`."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Checks hold the `lock`, so while others hold it, there is no interrupt."""
        self._connection = connection
        self.lock = threading.Lock()
        self.active = False

    @abstractmethod
    def is_over_limit(self) -> bool:
        """Return whether to interrupt the statement now."""

    def watch(self) -> None:
        """Begin to check."""
        self.active = True
        _WATCH.add(self)

    def unwatch(self) -> None:
        """End the checks: no interrupt comes later."""
        with self.lock:
            self.active = False

    def check(self) -> None:
        """Interrupt the statement if it is above its limits."""
        with self.lock:
            if self.active and self.is_over_limit():
                self._connection.interrupt()


class _Watch:
    """The watched statements of the process, and the thread that checks them."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._watched: set[Watched] = set()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        with self._condition:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="statement-watch", daemon=True)
                self._thread.start()
            if not self._watched:
                self._condition.notify()
            self._watched.add(watched)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._watched)
                watched = list(self._watched)
            for each in watched:
                each.check()
            with self._condition:
                self._watched = {each for each in self._watched if each.active}
            time.sleep(CHECK_SECONDS)


_WATCH = _Watch()
