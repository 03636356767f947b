"""Rate limit for recorded requests, so that recording costs little under load."""

import time
from collections.abc import Callable

MAX_PER_SECOND = 50


class RecordingLimiter:
    """Limits how many requests are recorded a second. Use on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit: int = MAX_PER_SECOND) -> None:
        """`limit` is the maximum of each second of `clock`."""
        self._clock = clock
        self._limit = limit
        self._second = 0
        self._count = 0

    def allow(self) -> bool:
        """Return whether the request that starts now is recorded."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        return self._count <= self._limit
