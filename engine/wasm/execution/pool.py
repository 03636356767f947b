"""Admission control for guest instances.

Requests queue when no slot is free, or when the memory budget lacks what their run usually takes. The project
that holds the least memory is next, and of equal ones that with the fewest slots; FIFO within a project. A
project that holds more than half of all slots, or of the memory, cannot take the last eighth: its runs may be
long, and others need not wait for their end. When the queue is full, the newest request of the project with
the longest queue is rejected, and so is one that waited `MEMORY_WAIT_SECONDS` for memory or for its quota.
"""

import asyncio
import gc
import mmap
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic_ns

from wasmtime import Engine

from engine.errors import SvcError
from engine.grant import Grant
from engine.http.exchange import Disconnected
from engine.quota import Quotas
from engine.wasm.capi.wasmtime import address, increment_epoch
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import (
    MEMORIES_PER_INSTANCE,
    MIB,
    WARM_RESIDENT_MIB,
    PoolSettings,
    create_engine,
)
from engine.wasm.execution.host_memories import HostMemories, MappedImage, RetainedMemories, RetainedStacks
from engine.wasm.execution.memory_budget import Holding, MemoryBudget, RunMemory
from engine.wasm.execution.reclaimer import MAX_BACKLOG

MAX_WARM = 8
"""Components that may use warm slots."""
PROMOTE_AFTER = 8
"""Consecutive requests, each within `MAX_GAP_NS` of the last, before a component is promoted."""
MAX_GAP_NS = 1_000_000_000
EVICT_IDLE_NS = 10_000_000_000
"""A component idle for this long may be evicted in favor of a busy one."""


@dataclass(slots=True, eq=False)
class ComponentUsage:
    """Request history of a component: time of the last request, and consecutive requests.

    `hosted` is whether this host maps its memories.
    """

    hosted: bool = False
    last_request_ns: int = 0
    streak: int = 0


class WarmSlotPolicy:
    """The components that use warm slots (see `PoolSettings.warm`), in order of last use.

    A warm slot is fast for the component whose memory it retains, and slower than a cold slot for any other,
    because wasmtime maps the memory again. So only a few busy components use warm slots, and one is replaced
    only after an idle period. Where this host maps the memory, a warm slot is slow for no component, and what
    is retained has a limit of its own. Such a component uses warm slots after its first requests, which
    measure its memory.
    """

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


RESERVED_SHARE = 8
"""One in eight slots and bytes is reserved for projects that do not hold more than half of all."""
MIN_INSTANCES = 8
"""Smallest usable pool."""
MAX_RETAINED = 192
"""Maximum memories that this host retains, because each takes address space and mappings."""
MEMORY_WAIT_SECONDS = 30.0
"""How long a request waits for memory."""
_MEMORY_BYTES = (4096 + 64) * MIB
"""Address space of one memory with its guard regions."""
Ticket = asyncio.Future[bool]
"""A queued request; the result is whether it has a slot, or was rejected."""


class ClientDisconnected(Exception):
    """The client disconnected before its request had a slot."""


class FairQueue:
    """The queues of all projects with waiting requests, at most `limit` requests together."""

    def __init__(self, limit: int, within_quota: Callable[[str, RunMemory], bool]) -> None:
        """`within_quota` returns whether a request's project may begin its run."""
        self._limit = limit
        self._within_quota = within_quota
        self.size = 0
        """How many requests wait."""
        self.projects: OrderedDict[str, OrderedDict[Ticket, RunMemory]] = OrderedDict()
        """Their requests, the oldest first; the project with the latest turn last."""

    def enqueue(self, project: str, memory: RunMemory) -> Ticket | None:
        """Add a request to the queue of its project; return `None` if it is rejected.

        When the queue is full, the newest request of the longest queue is rejected instead, if that queue
        is still longer than this project's would be.
        """
        if self.size >= self._limit:
            longest = max(self.projects, key=lambda name: len(self.projects[name]), default=project)
            if len(self.projects.get(project, ())) + 1 >= len(self.projects.get(longest, ())):
                return None
            self._pop(longest, last=True).set_result(False)
        ticket = asyncio.get_running_loop().create_future()
        self.projects.setdefault(project, OrderedDict())[ticket] = memory
        self.size += 1
        return ticket

    def remove(self, project: str, ticket: Ticket) -> None:
        """Remove a request, if it is still queued."""
        if ticket in self.projects.get(project, ()):
            del self.projects[project][ticket]
            self._removed(project)

    def next(self, holdings: Mapping[str, "Holding"]) -> tuple[str, RunMemory] | None:
        """Return the project that is next, and the memory of its first request.

        Of the projects with waiting requests and room in their quota, that is the one that holds the least
        memory, then the fewest slots, then the one whose last turn is longest ago.
        """
        first = {name: next(iter(queue.values())) for name, queue in self.projects.items()}
        names = (name for name, memory in first.items() if self._within_quota(name, memory))
        ranks = {name: (holding.memory, holding.slots) for name, holding in holdings.items()}
        project = min(names, key=lambda name: ranks.get(name, (0, 0)), default=None)
        return None if project is None else (project, first[project])

    def grant(self, project: str) -> None:
        """Give a slot to the first request of a project."""
        self.projects.move_to_end(project)
        self._pop(project, last=False).set_result(True)

    def _pop(self, project: str, *, last: bool) -> Ticket:
        ticket, _ = self.projects[project].popitem(last=last)
        self._removed(project)
        return ticket

    def _removed(self, project: str) -> None:
        self.size -= 1
        if not self.projects[project]:
            del self.projects[project]


_NOTHING = Holding()


class Slots:
    """Slots of one kind; `free` of them are not in use."""

    def __init__(self, size: int, memory_mib: int, *, warm: bool) -> None:
        """Reserve room for `size` instances, and for a few that have ended and are not yet reclaimed."""
        self.free = size
        self.warm = warm
        self._make = partial(create_engine, instances=size + MAX_BACKLOG, memory_mib=memory_mib, warm=warm)
        self.engines: dict[tuple[Compiler, bool], Engine] = {}
        """Replaced as a whole: the thread that ends epochs iterates it."""
        most = size * WARM_RESIDENT_MIB * MIB
        self.retained = RetainedMemories(MAX_RETAINED, most) if warm else None
        self._stacks = RetainedStacks(size) if warm else None

    def engine(self, compiler: Compiler, *, hosted: bool = False) -> Engine:
        """Return the engine that runs code of a compiler in these slots, if `hosted` in `HostMemories`."""
        key = compiler, hosted
        if key not in self.engines:
            hosts = HostMemories(self.retained) if hosted else None
            engine = hosts.create_engine(compiler, self._stacks) if hosts else self._make(compiler)
            self.engines = {**self.engines, key: engine}
        return self.engines[key]


class Pool:
    """All slots of a process, warm ones first."""

    def __init__(
        self, settings: PoolSettings, queue: int, budget: MemoryBudget, quotas: Quotas | None = None
    ) -> None:
        """`queue` is how many requests may wait for a slot."""
        self.budget = budget
        self._quotas = (quotas or Quotas()).active
        warm = min(settings.warm, settings.instances)
        sizes = [(warm, True), (settings.instances - warm, False)]
        self.slots = tuple(Slots(size, settings.memory_mib, warm=is_warm) for size, is_warm in sizes if size)
        self.instances = self._free = settings.instances
        self._half = settings.instances // 2
        self._reserved = settings.instances // RESERVED_SHARE
        self._half_bytes, self._reserved_bytes = budget.limit // 2, budget.limit // RESERVED_SHARE
        self._holdings: dict[str, Holding] = {}
        self._queue = FairQueue(queue, self._within_quota)
        self._warmth = WarmSlotPolicy()

    def _within_quota(self, project: str, memory: RunMemory) -> bool:
        quota = self._quotas.get(project)
        if quota is None:
            return True
        holding = self._holdings.get(project, _NOTHING)
        return quota.admits(holding.slots, holding.memory, memory.profile.usual)

    def reached_quota(self, project: str, memory: RunMemory) -> tuple[str, Grant | None]:
        """Return which limit of its quota a project has reached, empty if none, and what to report."""
        if self._within_quota(project, memory):
            return "", None
        quota, holding = self._quotas[project], self._holdings.get(project, _NOTHING)
        limit = quota.limits.instances
        name = "instances" if limit is not None and holding.slots >= limit else "memory"
        return quota.message(name), quota.report(name)

    def _may_take(self, project: str, memory: RunMemory) -> bool:
        if self._quotas and not self._within_quota(project, memory):
            return False
        usual, holding = memory.profile.usual, self._holdings.get(project, _NOTHING)
        # A run alone begins in any case.
        short = usual > self.budget.headroom - self._reserved_bytes and self._holdings
        if short and (holding.memory + usual > self._half_bytes or usual > self.budget.headroom):
            return False
        return self._free > self._reserved or (self._free > 0 and holding.slots <= self._half)

    def _may_pass(self, project: str, memory: RunMemory) -> bool:
        """Return whether a project would still hold less than the one that is next in the queue."""
        following = self._queue.next(self._holdings)
        if following is None:
            return True
        total = self._holdings.get(project, _NOTHING).memory + memory.profile.usual
        return total <= self._holdings.get(following[0], _NOTHING).memory

    def try_acquire(self, project: str, use: ComponentUsage, memory: RunMemory) -> int | None:
        """Return the position in `slots` of a slot's kind; `None` if this project may have none now.

        A slot that a queued request may have is never left free. A request passes one that waits for memory
        if its project then still holds less.
        """
        if not self._may_take(project, memory) or (self._queue.size and not self._may_pass(project, memory)):
            return None
        self._count(project, memory)
        return self._choose(use)

    async def acquire(
        self, project: str, use: ComponentUsage, memory: RunMemory, disconnected: Disconnected
    ) -> int | None:
        """Wait for what `try_acquire` could not give; return `None` if the request is rejected.

        Raises `ClientDisconnected`.
        """
        ticket = self._queue.enqueue(project, memory)
        if ticket is None:
            return None
        timer = asyncio.get_running_loop().call_later(
            MEMORY_WAIT_SECONDS, self._reject, project, ticket, memory
        )

        def on_disconnect() -> None:
            if not ticket.done():
                self._queue.remove(project, ticket)
                ticket.set_exception(ClientDisconnected())

        disconnected.add_callback(on_disconnect)
        try:
            admitted = await asyncio.shield(ticket)
        except asyncio.CancelledError:
            self._queue.remove(project, ticket)
            if ticket.done() and ticket.exception() is None and ticket.result():
                self._uncount(project, memory)
            raise
        finally:
            timer.cancel()
            disconnected.remove_callback(on_disconnect)
        return self._choose(use) if admitted else None

    def release(self, kind: int, project: str, memory: RunMemory) -> None:
        """Return a slot and the memory of a run whose instance is closed, or soon will be."""
        self.slots[kind].free += 1
        self._uncount(project, memory)

    def _reject(self, project: str, ticket: Ticket, memory: RunMemory) -> None:
        """Reject a request that has waited for memory or its quota; one that waits for a slot continues."""
        short = memory.profile.usual > self.budget.headroom or not self._within_quota(project, memory)
        if not ticket.done() and short:
            self._queue.remove(project, ticket)
            ticket.set_result(False)

    def _choose(self, use: ComponentUsage) -> int:
        kind = 0 if self._warmth.admit(use) else len(self.slots) - 1
        if not self.slots[kind].free:
            kind = len(self.slots) - 1 - kind  # There is a slot: one kind or the other.
        self.slots[kind].free -= 1
        return kind

    def _count(self, project: str, memory: RunMemory) -> None:
        self._free -= 1
        holding = self._holdings.get(project)
        if holding is None:
            holding = self._holdings[project] = Holding()
        self.budget.charge(memory, holding)
        holding.slots += 1

    def _uncount(self, project: str, memory: RunMemory) -> None:
        self._free += 1
        holding = self._holdings[project]
        holding.slots -= 1
        self.budget.discharge(memory)
        if not holding.slots:
            del self._holdings[project]
        if self._queue.size:
            self.grant_waiting()

    def release_image(self, image: MappedImage) -> None:
        """Release the memories that are retained for an image without further runs."""
        for slots in self.slots:
            if slots.retained is not None:
                slots.retained.forget(image)

    def running(self) -> dict[str, int]:
        """Return the number of slots that each project holds."""
        return {project: holding.slots for project, holding in self._holdings.items()}

    def queued(self) -> dict[str, int]:
        """Return the number of waiting requests of each project."""
        return {project: len(queue) for project, queue in self._queue.projects.items()}

    def grant_waiting(self) -> None:
        """Admit queued requests for which there is a slot and memory."""
        while (following := self._queue.next(self._holdings)) is not None and self._may_take(*following):
            self._count(*following)
            self._queue.grant(following[0])

    def increment_epoch(self) -> None:
        """Increment the epoch of every engine; callable from any thread."""
        for slots in self.slots:
            for engine in slots.engines.values():
                increment_epoch(address(engine))


def fit_pool(settings: PoolSettings) -> PoolSettings:
    """Return the settings with the number of instances halved until the reservation succeeds.

    Each compiler's code has a pool of its own. Raises `SvcError` below MIN_INSTANCES.
    """
    instances = settings.instances
    if not _has_room(instances):
        gc.collect()  # Engines of a closed runner hold their reservation until they are collected.
    while not _has_room(instances):
        instances //= 2
        if instances < MIN_INSTANCES:
            raise SvcError(
                "the address space of this process is too small to run guests",
                "Check the limit with `ulimit -v`; remove it with `ulimit -v unlimited`.",
            )
    return settings if instances == settings.instances else replace(settings, instances=instances)


def _has_room(instances: int) -> bool:
    pools = len(Compiler) + 1  # One for the memories that this host maps.
    size = pools * instances * MEMORIES_PER_INSTANCE * _MEMORY_BYTES
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, OverflowError):
        return False
    return True
