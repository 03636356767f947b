"""Room for instances, and who gets it.

Owns admission: a request waits for a slot while there is none, and is refused when too many wait already.
Slots that keep their memory (see `PoolSettings.warm`) are handed out first.
"""

import asyncio
from dataclasses import dataclass

from wasmtime import Engine

from engine.wasm.config import PoolSettings, engine
from engine.wasm.reclaimer import BACKLOG


@dataclass(slots=True)
class Slots:
    """A number of slots behind one wasmtime engine; `free` of them are not in use."""

    engine: Engine
    free: int


class Pool:
    """All slots of a process, warm ones first."""

    def __init__(self, settings: PoolSettings, queue: int) -> None:
        """`queue` is how many requests may wait for a slot.

        Each engine has room for a few more: instances that are over and not yet given back.
        """
        warm = min(settings.warm, settings.instances)
        sizes = [(warm, True), (settings.instances - warm, False)]
        self.slots = tuple(
            Slots(engine(size + BACKLOG, settings.memory_mib, warm=keep), size)
            for size, keep in sizes
            if size
        )
        self._free = asyncio.Semaphore(settings.instances)
        self._queue = queue
        self._waiting = 0

    async def take(self) -> int | None:
        """Wait for a slot; return the position of its kind in `slots`, or `None` when too many wait."""
        if self._free.locked():
            if self._waiting >= self._queue:
                return None
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        kind = next(i for i, slots in enumerate(self.slots) if slots.free)
        self.slots[kind].free -= 1
        return kind

    def give_back(self, kind: int) -> None:
        """Return a slot."""
        self.slots[kind].free += 1
        self._free.release()

    def increment_epoch(self) -> None:
        """Move every engine's epoch on; callable from any thread."""
        for slots in self.slots:
            slots.engine.increment_epoch()
