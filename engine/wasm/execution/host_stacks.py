"""Stacks of fibers, mapped by this host and used by one run after another.

To map a new stack takes a tenth of the CPU time of a short run. Code of guests cannot read what an earlier
run left on it.
"""

from contextlib import suppress
from weakref import finalize

from engine.wasm.capi import pages

RESIDENT_BYTES = 32 << 10
"""The part of a stack, from its top, that stays resident after a run."""


class RetainedStacks:
    """Stacks for next runs, at most `limit`. Callable from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: list[tuple[int, int]] = []
        finalize(self, _release_all, self._free)

    def create(self, size: int) -> int:
        """Return the lowest address of a stack of `size` bytes, with a guard below. Raises OSError."""
        with suppress(IndexError):
            address, free = self._free.pop()
            if free == size:
                return address
            _release(address, free)
        address = pages.reserve(pages.PAGE_BYTES + size) + pages.PAGE_BYTES
        try:
            pages.allow_access(address, size)
        except OSError:
            _release(address, size)
            raise
        return address

    def recycle(self, address: int, size: int) -> None:
        """Retain a stack whose run has ended, or release it."""
        if len(self._free) < self._limit:
            pages.discard(address, size - RESIDENT_BYTES)
            self._free.append((address, size))
        else:
            _release(address, size)


def _release(address: int, size: int) -> None:
    pages.release(address - pages.PAGE_BYTES, size + pages.PAGE_BYTES)


def _release_all(stacks: list[tuple[int, int]]) -> None:
    while stacks:
        _release(*stacks.pop())
