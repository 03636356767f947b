"""Which requests are recorded. Owns how many there are a second at most.

A recording is a convenience of development: under load most requests are let pass, so that it costs them
nothing but a look at the clock.
"""

import time
from collections.abc import Callable

MOST_A_SECOND = 50


class Capture:
    """Decides. Use on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_A_SECOND) -> None:
        """`most` are recorded of those that begin within a second of `clock`."""
        self._clock = clock
        self._most = most
        self._second = 0
        self._count = 0

    def due(self) -> bool:
        """Whether the request that begins now is recorded."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        return self._count <= self._most
