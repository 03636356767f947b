"""Has epochs pass while there are runs: at the end of one, guest code gives way (`drive.py`).

Owns the thread that does. To wake costs it, and the event loop that hands the interpreter's lock over, some
150 µs each time. So epochs are long as long as nobody needs short ones, and none pass once nothing runs.
"""

import threading
import time
from collections.abc import Callable, Sized

LONG_SECONDS = 0.05
SHORT_SECONDS = 0.02
SHORT_FOR_SECONDS = 10.0
"""How long epochs are short after a guest was heavy: another may come."""


class Epochs:
    """Call `begun` after each addition to the runs, on one thread."""

    def __init__(self, increment: Callable[[], None], runs: Sized) -> None:
        """`increment` ends an epoch, `runs` are those that are under way."""
        self._increment = increment
        self._runs = runs
        self._closed = self._resting = self._recent = False
        self._short_until = 0.0
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._work, name="epoch", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._closed:
            time.sleep(SHORT_SECONDS if time.monotonic() < self._short_until else LONG_SECONDS)
            self._increment()
            if self._recent or self._runs:
                self._recent = False
                continue
            self._resting = True
            if not self._runs and not self._closed:  # None began since.
                self._begun.wait()
            self._resting = False
            self._begun.clear()

    def begun(self) -> None:
        """Have epochs pass from now on: a run began."""
        self._recent = True
        if self._resting:
            self._begun.set()

    def heavy(self) -> None:
        """Have short epochs pass: a guest computes for long."""
        self._short_until = time.monotonic() + SHORT_FOR_SECONDS

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._begun.set()
        self._thread.join()
