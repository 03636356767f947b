"""Policy that decides which components run in warm slots (see `PoolSettings.warm`).

A warm slot is fast for the component whose memory it retains, and slower than a cold slot for any other,
because wasmtime maps the memory again. So only a few busy components use warm slots, and one is replaced only
after an idle period. All others run in cold slots and pay for page faults.

Where this host maps the memory, a warm slot is slow for no component, and what is retained has a limit of its
own. Such a component uses warm slots after its first requests, which measure its memory.
"""

from collections import OrderedDict
from time import monotonic_ns

MAX_WARM = 8
"""Components that may use warm slots."""
PROMOTE_AFTER = 8
"""Consecutive requests, each within `MAX_GAP_NS` of the last, before a component is promoted."""
MAX_GAP_NS = 1_000_000_000
EVICT_IDLE_NS = 10_000_000_000
"""A component idle for this long may be evicted in favor of a busy one."""


class ComponentUsage:
    """Request history of a component: time of the last request, and consecutive requests."""

    __slots__ = ("hosted", "last_request_ns", "streak")

    def __init__(self, *, hosted: bool = False) -> None:
        """`hosted` is whether this host maps its memories."""
        self.hosted = hosted
        self.last_request_ns = 0
        self.streak = 0


class WarmSlotPolicy:
    """The components that use warm slots, in order of last use."""

    def __init__(self) -> None:
        self._warm: OrderedDict[ComponentUsage, None] = OrderedDict()

    def admit(self, use: ComponentUsage) -> bool:
        """Record a request; return whether it should run in a warm slot."""
        now = monotonic_ns()
        use.streak = use.streak + 1 if use.hosted or now - use.last_request_ns < MAX_GAP_NS else 1
        use.last_request_ns = now
        if use.hosted:
            return use.streak >= PROMOTE_AFTER
        if use not in self._warm:
            if use.streak < PROMOTE_AFTER or not self._make_room(now):
                return False
            self._warm[use] = None
        self._warm.move_to_end(use)
        return True

    def _make_room(self, now: int) -> bool:
        """Return whether a place is free, evicting the least recently used component if it is idle."""
        if len(self._warm) < MAX_WARM:
            return True
        least_recent = next(iter(self._warm))
        if now - least_recent.last_request_ns < EVICT_IDLE_NS:
            return False
        del self._warm[least_recent]
        return True
