"""Rate limit for failed logins, per user name and per client address.

Counts are in memory only; the nodes of a fleet send each other their attempts. After a few failures, each
further attempt must wait, twice as long each time, up to a minute.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.control.errors import TooManyAttempts

FREE_FAILURES_PER_USER, FREE_FAILURES_PER_ADDRESS = 5, 20
"""Failures without a delay. The limit per address is higher because users may share a proxy."""
MAX_WAIT_SECONDS = 60.0
RESET_AFTER_SECONDS = 15 * 60.0
MAX_TRACKED = 10_000


@dataclass(slots=True)
class _Count:
    failures: int = 0
    last: float = -math.inf


@dataclass(frozen=True, slots=True)
class LoginEvent:
    """An attempt of a client, or its success. `user` is empty for the claim of a service."""

    address: str
    user: str
    success: bool = False


class LoginThrottle:
    """Counts login attempts. `clock` returns monotonic seconds.

    `address` groups clients, for example by IPv6 /64 prefix. `announce` is called with each event here.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self.announce: Callable[[LoginEvent], object] = lambda event: None

    def __len__(self) -> int:
        return len(self._counts)

    @contextmanager
    def attempt(self, address: str, user: str = "") -> Iterator[None]:
        """Count an attempt as failed until it succeeds, so that concurrent attempts count too.

        A success resets those of the user. Raises `TooManyAttempts`; a rejected attempt is not counted.
        """
        now = self._clock()
        wait = max(self._wait(key, free, now) for key, free in self._keys(address, user))
        if wait > 0:
            raise TooManyAttempts("too many failed logins", math.ceil(wait))
        self._note(LoginEvent(address, user))
        yield
        self._note(LoginEvent(address, user, success=True))

    def _note(self, event: LoginEvent) -> None:
        self.apply(event)
        self.announce(event)

    def apply(self, event: LoginEvent) -> None:
        """Count an attempt or a success, also of another node."""
        keys = self._keys(event.address, event.user)
        if event.success:
            (address_key, _), *user_keys = keys
            for user_key, _ in user_keys:
                self._counts.pop(user_key, None)
            if (count := self._counts.get(address_key)) is not None:
                count.failures -= 1
                if count.failures <= 0:
                    del self._counts[address_key]
            return
        now = self._clock()
        for key, _ in keys:
            count = self._counts.setdefault(key, _Count())
            if now - count.last > RESET_AFTER_SECONDS:
                count.failures = 0
            count.failures += 1
            count.last = now
            self._counts.move_to_end(key)
        while len(self._counts) > MAX_TRACKED:
            self._counts.popitem(last=False)

    def _wait(self, key: tuple[str, str], free: int, now: float) -> float:
        count = self._counts.get(key)
        if count is None or count.failures < free or now - count.last > RESET_AFTER_SECONDS:
            return 0.0
        pause = min(2.0 ** min(count.failures - free, 10), MAX_WAIT_SECONDS)
        return count.last + pause - now

    @staticmethod
    def _keys(address: str, user: str) -> list[tuple[tuple[str, str], int]]:
        """Return the counter keys, each with its number of free failures; the address comes first."""
        keys = [(("address", address), FREE_FAILURES_PER_ADDRESS)]
        if user:
            keys.append((("user", user), FREE_FAILURES_PER_USER))
        return keys
