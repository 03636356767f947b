"""A limit on the requests of each client of a resource."""

import time
from collections import OrderedDict
from collections.abc import Callable

from engine.http.connection_limits import client_key
from engine.manifest.model import parse_rate

MAX_ADDRESSES = 10_000
"""Addresses that are remembered; of more, the one without requests for longest counts as new."""


class ClientRate:
    """A token bucket for each client address, of which IPv6 addresses of one /64 network share one.

    A bucket is stored as the time in ns at which it is full again. Use on one event loop.
    """

    def __init__(self, rate: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`rate` is a valid key of a manifest."""
        requests, seconds = parse_rate(rate)
        self._token_ns = seconds * 10**9 // requests
        self._bucket_ns = self._token_ns * requests
        self._clock = clock
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def take(self, address: str) -> int:
        """Use a token of an address; return 0, or the nanoseconds until the next token."""
        key, now = client_key(address), self._clock()
        full_at = max(self._full_at.get(key, now), now) + self._token_ns
        if full_at - now > self._bucket_ns:
            return full_at - now - self._bucket_ns
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return 0
