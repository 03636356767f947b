"""Room for instances, and who gets it.

Owns admission. A request waits while there is no slot for it. Then the Project that holds the fewest slots is
next, and within a Project who came first. A Project that holds more than half of all slots leaves the last
eighth to others, who so need not wait until its runs end, which may be long. Refused is, once too many wait,
the latest of the Project that has most requests waiting (`queue.py`). Which kind of slot a request gets is
`warmth.py`'s to say, while there are both.
"""

import asyncio
from functools import partial

from wasmtime import Engine

from engine.wasm.capi.wasmtime import address, increment_epoch
from engine.wasm.execution.config import Compiler, PoolSettings, create_engine
from engine.wasm.execution.queue import Queue
from engine.wasm.execution.reclaimer import MAX_BACKLOG
from engine.wasm.execution.warm_slots import ComponentUsage, WarmSlotPolicy

SPARED = 8
"""One of so many slots is spared for Projects that do not hold more than half of all."""


class Slots:
    """A number of slots of one kind; `free` of them are not in use."""

    def __init__(self, size: int, memory_mib: int, *, warm: bool) -> None:
        """Make room for `size` instances, and for a few more that are over and not yet given back."""
        self.free = size
        self._make = partial(create_engine, instances=size + MAX_BACKLOG, memory_mib=memory_mib, warm=warm)
        self._engines: dict[Compiler, Engine] = {}

    def engine(self, compiler: Compiler) -> Engine:
        """Return the engine that runs what a compiler made in these slots."""
        if compiler not in self._engines:
            self._engines = {**self._engines, compiler: self._make(compiler)}
        return self._engines[compiler]

    def increment_epoch(self) -> None:
        """Move every engine's epoch on; callable from any thread."""
        for each in self._engines.values():
            increment_epoch(address(each))


class Pool:
    """All slots of a process, warm ones first."""

    def __init__(self, settings: PoolSettings, queue: int) -> None:
        """`queue` is how many requests may wait for a slot."""
        warm = min(settings.warm, settings.instances)
        sizes = [(warm, True), (settings.instances - warm, False)]
        self.slots = tuple(Slots(size, settings.memory_mib, warm=keep) for size, keep in sizes if size)
        self._free = settings.instances
        self._many = settings.instances // 2
        self._spared = settings.instances // SPARED
        self._held: dict[str, int] = {}
        self._queue = Queue(queue)
        self._warmth = WarmSlotPolicy()

    def _may_take(self, project: str) -> bool:
        free = self._free
        return free > self._spared or (free > 0 and self._held.get(project, 0) <= self._many)

    def try_acquire(self, project: str, use: ComponentUsage) -> int | None:
        """Return the position in `slots` of a slot's kind; `None` when there is none now for this Project.

        Whoever waits may not have what is free either: a slot that they may have is never left free.
        """
        if not self._may_take(project):
            return None
        self._admit(project)
        return self._choose(use)

    async def wait(self, project: str, use: ComponentUsage) -> int | None:
        """Wait for what `take` could not give; return `None` when others have the places of the queue."""
        place = self._queue.join(project)
        if place is None:
            return None
        try:
            admitted = await asyncio.shield(place)
        except asyncio.CancelledError:
            self._queue.leave(project, place)
            if place.done() and place.result():
                self._dismiss(project)
            raise
        return self._choose(use) if admitted else None

    def give_back(self, kind: int, project: str) -> None:
        """Return a slot."""
        self.slots[kind].free += 1
        self._dismiss(project)

    def _choose(self, use: ComponentUsage) -> int:
        warm = self._warmth.admit(use)
        kinds = range(len(self.slots)) if warm else reversed(range(len(self.slots)))
        kind = next(i for i in kinds if self.slots[i].free)
        self.slots[kind].free -= 1
        return kind

    def _admit(self, project: str) -> None:
        self._free -= 1
        self._held[project] = self._held.get(project, 0) + 1

    def _dismiss(self, project: str) -> None:
        self._free += 1
        self._held[project] -= 1
        if not self._held[project]:
            del self._held[project]
        following = self._queue.next(self._held)
        if following is not None and self._may_take(following):
            self._admit(following)
            self._queue.call(following)

    def increment_epoch(self) -> None:
        """Move every engine's epoch on; callable from any thread."""
        for slots in self.slots:
            slots.increment_epoch()
