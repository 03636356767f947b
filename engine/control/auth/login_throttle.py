"""How often somebody may try to log in: by user name, and by the address that they come from.

Owns the counts, in memory only: a restart forgets them. After a few failures each further attempt has to
wait, twice as long each time, up to a minute; so a password can not be guessed, and nobody is locked out for
long.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import SvcError
from engine.http.connection_limits import network

FREE_FAILURES_PER_USER, FREE_FAILURES_PER_ADDRESS = 5, 20
"""Failures that cost nothing. An address may be that of many people, behind one proxy."""
MAX_WAIT_SECONDS = 60.0
RESET_AFTER_SECONDS = 15 * 60.0
MAX_TRACKED = 10_000


class TooManyAttempts(SvcError):
    """Whoever asks has to wait; `retry_after` is whole seconds."""

    code = "too-many-attempts"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, f"Try again in {retry_after} s.")
        self.retry_after = retry_after


@dataclass(slots=True)
class _Count:
    failures: int = 0
    last: float = -math.inf


class LoginThrottle:
    """Counts attempts. `clock` tells seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def start_attempt(self, address: str, user: str | None = None) -> None:
        """Count an attempt as failed until `succeeded` says otherwise: many at once are as many.

        Raises `TooManyAttempts`, and what was not tried does not count.
        """
        now = self._clock()
        keys = self._keys(address, user)
        wait = max(self._wait(key, free, now) for key, free in keys)
        if wait > 0:
            raise TooManyAttempts("too many failed attempts to log in", math.ceil(wait))
        for key, _ in keys:
            count = self._counts.setdefault(key, _Count())
            if now - count.last > RESET_AFTER_SECONDS:
                count.failures = 0
            count.failures += 1
            count.last = now
            self._counts.move_to_end(key)
        while len(self._counts) > MAX_TRACKED:
            self._counts.popitem(last=False)

    def record_success(self, address: str, user: str | None = None) -> None:
        """Forget the failures of the name, and take this attempt from those of the address."""
        (place, _), *names = self._keys(address, user)
        for name, _ in names:
            self._counts.pop(name, None)
        count = self._counts.get(place)
        if count is not None:
            count.failures -= 1
            if count.failures <= 0:
                del self._counts[place]

    def _wait(self, key: tuple[str, str], free: int, now: float) -> float:
        count = self._counts.get(key)
        if count is None or count.failures < free or now - count.last > RESET_AFTER_SECONDS:
            return 0.0
        pause = min(2.0 ** min(count.failures - free, 10), MAX_WAIT_SECONDS)
        return count.last + pause - now

    @staticmethod
    def _keys(address: str, user: str | None) -> list[tuple[tuple[str, str], int]]:
        """Return what is counted, each with how many failures cost nothing; the address comes first."""
        keys = [(("address", network(address)), FREE_FAILURES_PER_ADDRESS)]
        if user is not None:
            keys.append((("user", user), FREE_FAILURES_PER_USER))
        return keys
