"""Which components run in warm slots, which keep the memory that they touched (see `PoolSettings.warm`).

A warm slot is quick for the component whose memory it keeps, and slower than a cold one for any other, whose
memory has to be made anew: a js component's first run in one takes seven times as long. So warm slots belong
to few components, those that are asked again and again, and change hands only when one was not asked for a
while. All others run in cold slots, which cost page faults each time.
"""

from collections import OrderedDict
from time import monotonic_ns

MAX_WARM = 8
"""Components that have warm slots."""
PROMOTE_AFTER = 8
"""Requests after which a component is worth one, none of them later than `GAP_NS` after the last."""
MAX_GAP_NS = 1_000_000_000
EVICT_IDLE_NS = 10_000_000_000
"""Who was not asked for so long loses its place to one that is worth it."""


class ComponentUsage:
    """How a component is asked: when it last was, and how often in a row."""

    __slots__ = ("last_request_ns", "streak")

    def __init__(self) -> None:
        self.last_request_ns = 0
        self.streak = 0


class WarmSlotPolicy:
    """The components that have warm slots, who was asked longest ago first."""

    def __init__(self) -> None:
        self._warm: OrderedDict[ComponentUsage, None] = OrderedDict()

    def admit(self, use: ComponentUsage) -> bool:
        """Whether a component that is asked now is to run in a warm slot."""
        now = monotonic_ns()
        use.streak = use.streak + 1 if now - use.last_request_ns < MAX_GAP_NS else 1
        use.last_request_ns = now
        if use not in self._warm:
            if use.streak < PROMOTE_AFTER or not self._free_place(now):
                return False
            self._warm[use] = None
        self._warm.move_to_end(use)
        return True

    def _free_place(self, now: int) -> bool:
        """Whether a place is free, or was for all that anybody asked."""
        if len(self._warm) < MAX_WARM:
            return True
        longest = next(iter(self._warm))
        if now - longest.last_request_ns < EVICT_IDLE_NS:
            return False
        del self._warm[longest]
        return True
