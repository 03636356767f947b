"""Room for instances, and who gets it.

Owns admission: a request waits for a slot while there is none, first come first served, and is refused when
too many wait already.
Slots that keep their memory (see `PoolSettings.warm`) are handed out first.
"""

import asyncio
from functools import partial

from wasmtime import Engine

from engine.wasm.config import Compiler, PoolSettings, engine
from engine.wasm.reclaimer import BACKLOG


class Slots:
    """A number of slots of one kind; `free` of them are not in use."""

    def __init__(self, size: int, memory_mib: int, *, warm: bool) -> None:
        """Make room for `size` instances, and for a few more that are over and not yet given back."""
        self.free = size
        self._make = partial(engine, instances=size + BACKLOG, memory_mib=memory_mib, warm=warm)
        self._engines: dict[Compiler, Engine] = {}

    def engine(self, compiler: Compiler) -> Engine:
        """Return the engine that runs what a compiler made in these slots."""
        if compiler not in self._engines:
            self._engines = {**self._engines, compiler: self._make(compiler)}
        return self._engines[compiler]

    def increment_epoch(self) -> None:
        """Move every engine's epoch on; callable from any thread."""
        for each in self._engines.values():
            each.increment_epoch()


class Pool:
    """All slots of a process, warm ones first."""

    def __init__(self, settings: PoolSettings, queue: int) -> None:
        """`queue` is how many requests may wait for a slot."""
        warm = min(settings.warm, settings.instances)
        sizes = [(warm, True), (settings.instances - warm, False)]
        self.slots = tuple(Slots(size, settings.memory_mib, warm=keep) for size, keep in sizes if size)
        self._free = asyncio.Semaphore(settings.instances)
        self._queue = queue
        self._waiting = 0

    @property
    def full(self) -> bool:
        """Whether `take` would wait, or refuse."""
        return self._free.locked()

    async def take(self) -> int | None:
        """Wait for a slot; return the position of its kind in `slots`, or `None` when too many wait."""
        if self.full:
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
            slots.increment_epoch()
