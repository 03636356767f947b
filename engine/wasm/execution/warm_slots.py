"""Which components run in warm slots, which keep the memory that they touched (see `PoolSettings.warm`).

A warm slot is quick for the component whose memory it keeps, and slower than a cold one for any other, whose
memory has to be made anew: a js component's first run in one takes seven times as long. So warm slots belong
to few components, those that are asked again and again, and change hands only when one was not asked for a
while. All others run in cold slots, which cost page faults each time.
"""

from collections import OrderedDict
from time import monotonic_ns

PLACES = 8
"""Components that have warm slots."""
IN_A_ROW = 8
"""Requests after which a component is worth one, none of them later than `GAP_NS` after the last."""
GAP_NS = 1_000_000_000
CALM_NS = 10_000_000_000
"""Who was not asked for so long loses its place to one that is worth it."""


class Use:
    """How a component is asked: when it last was, and how often in a row."""

    __slots__ = ("asked_ns", "in_a_row")

    def __init__(self) -> None:
        self.asked_ns = 0
        self.in_a_row = 0


class Warmth:
    """The components that have warm slots, who was asked longest ago first."""

    def __init__(self) -> None:
        self._warm: OrderedDict[Use, None] = OrderedDict()

    def asked(self, use: Use) -> bool:
        """Whether a component that is asked now is to run in a warm slot."""
        now = monotonic_ns()
        use.in_a_row = use.in_a_row + 1 if now - use.asked_ns < GAP_NS else 1
        use.asked_ns = now
        if use not in self._warm:
            if use.in_a_row < IN_A_ROW or not self._room(now):
                return False
            self._warm[use] = None
        self._warm.move_to_end(use)
        return True

    def _room(self, now: int) -> bool:
        """Whether a place is free, or was for all that anybody asked."""
        if len(self._warm) < PLACES:
            return True
        longest = next(iter(self._warm))
        if now - longest.asked_ns < CALM_NS:
            return False
        del self._warm[longest]
        return True
