"""The runner of guests: admission, one instance for each request, limits, metering.

All resources share the `Runner`; a `Guest` is one live version of one resource. `execution.py` drives a
single run.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary, finalize

from wasmtime import Engine

from engine.artifact import ComponentArtifact
from engine.cancellation import finish
from engine.confinement import yield_to_loop
from engine.fair_threads import FairThreads
from engine.http.exchange import MemoryExchange, Request
from engine.manifest.egress import Egress
from engine.manifest.model import Resource
from engine.quota import Quotas
from engine.sourcemap import SourceMap
from engine.trace import RequestTrace
from engine.wasm.binary.reader import declared_limits, split_limit
from engine.wasm.capi.linker import CodeRejected, LinkedComponent, load_component
from engine.wasm.capi.wasmtime import address
from engine.wasm.compile.code_cache import compile_component, is_compiled
from engine.wasm.compile.compilers import CONCURRENT
from engine.wasm.compile.component_file import read_component
from engine.wasm.compile.image_file import MemoryImage
from engine.wasm.execution.config import MIB, PoolSettings
from engine.wasm.execution.epoch_ticker import EpochTicker
from engine.wasm.execution.execution import CpuClock, Execution, UsualStretch
from engine.wasm.execution.host_memories import MappedImage
from engine.wasm.execution.memory_budget import (
    SAMPLE_SECONDS,
    MemoryBudget,
    MemoryProfile,
    RunMemory,
    default_budget,
)
from engine.wasm.execution.pool import ClientDisconnected, ComponentUsage, Pool, fit_pool
from engine.wasm.execution.reclaimer import Reclaimer
from engine.wasm.execution.run_state import GuestRequest, Outcome, RunReport, RunState, encode_environment
from engine.wasm.outbound.door_calls import DoorBinding, DoorRouter
from engine.wasm.outbound.http import Outbound, OutboundHttp, OutboundPolicy

MAX_TURN_NS = 10_000_000
"""How long guests may compute in one iteration of the loop before further runs queue."""
ADMITTED_NS = 2_500_000
"""Computing time that each iteration admits from the queue, by the mean of recent polls."""
_MEAN_SHIFT = 3


class LoopTurns:
    """Use it on the event loop's thread."""

    def __init__(self) -> None:
        self.crowded = False
        """Whether a run must `wait` before its guest computes on the loop."""
        self._used_ns = self._mean_ns = 0
        self._scheduled = False
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def record(self, nanoseconds: int) -> None:
        """Add to the time that guests computed in this iteration."""
        self._used_ns += nanoseconds
        self._mean_ns += (nanoseconds - self._mean_ns) >> _MEAN_SHIFT
        if self._used_ns > MAX_TURN_NS:
            self.crowded = True
        if not self._scheduled:
            self._schedule()

    async def wait(self, project: str) -> None:
        """Wait for a turn of the project."""
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(project, deque()).append(turn)
        if not self._scheduled:
            self._schedule()
        await turn

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._used_ns, self._scheduled = 0, False
        if not self._queues:
            self.crowded = False
            return
        for _ in range(max(1, ADMITTED_NS // max(1, self._mean_ns))):
            if not self._admit_next():
                break
        self.crowded = bool(self._queues)
        if self.crowded:
            self._schedule()

    def _admit_next(self) -> bool:
        """Admit the first run of the project whose last turn is longest ago; return whether one waits."""
        while self._queues:
            project, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[project] = queue
            if not turn.done():  # It is done if the run was canceled.
                turn.set_result(None)
                return True
        return False


_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PR_SET_THP_DISABLE = 41


def use_small_pages() -> None:
    """Disable transparent huge pages in this process if the system uses them everywhere (prctl(2)).

    They would take 2 MiB for one touched byte, and hide the growth of a run.
    """
    try:
        always = "[always]" in _SETTING.read_text()
    except OSError:
        return
    if always:
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


REAP_NS = 20_000_000
"""Minimum time between two checks for runs that exceed their limit."""
EARLY_NS = 1_000_000
"""How early timers of uvloop may fire: a check just before a deadline would have to be repeated."""
MAX_RETAINED_COMPONENTS = 64
"""Components of development that stay loaded while no version uses them."""
_T = TypeVar("_T")
NO_DOORS: Mapping[str, DoorBinding] = {}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedComponent:
    """A component, linked once for each kind of slot, and the limits of its memories in bytes."""

    programs: tuple[LinkedComponent, ...]
    memories: Sequence[int | None]
    use: ComponentUsage = field(default_factory=ComponentUsage)


class Runner:
    """The host of every guest of this process. Create, use and close it on one event loop."""

    def __init__(
        self,
        cache: Path,
        pool: PoolSettings | None = None,
        *,
        queue: int = 1024,
        memory: int | None = None,
        quotas: Quotas | None = None,
        outgoing: Outbound | None = None,
    ) -> None:
        """Store compiled code in the folder `cache`; let up to `queue` requests wait for a free instance.

        `memory` is the budget of the process in bytes; `None`: a share of the memory of the machine.
        `outgoing` answers requests to other servers, instead of these servers.
        """
        use_small_pages()
        self.cache = cache
        self.runs: dict[int, RunState] = {}
        threads = os.cpu_count() or 2
        self._pool_threads = ThreadPoolExecutor(threads, "guest", initializer=yield_to_loop)
        self._workers = FairThreads(threads, threads, sys.maxsize, self._pool_threads)
        self.quotas = quotas or Quotas()
        self.outgoing: Outbound = outgoing or OutboundHttp(quotas=self.quotas)
        self.budget = MemoryBudget(default_budget() if memory is None else memory)
        self.touched = 0
        """Bytes that the loop's thread had touched first at the last measurement."""
        self.pool = Pool(fit_pool(pool or PoolSettings()), queue, self.budget, self.quotas)
        self.reclaimer = Reclaimer()
        self._loaded: WeakValueDictionary[tuple[str, bool], LoadedComponent] = WeakValueDictionary()
        self._retained: OrderedDict[tuple[str, bool], LoadedComponent] = OrderedDict()
        self._compiling = asyncio.Semaphore(CONCURRENT)
        self._loading: WeakValueDictionary[tuple[str, bool], asyncio.Lock] = WeakValueDictionary()
        self._shared: WeakValueDictionary[tuple[Path, int], LinkedComponent] = WeakValueDictionary()
        """Linked machine code that components with other memory images share, by its file and engine."""
        self._active: set[Execution] = set()
        self._ended: asyncio.Event | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self._sampler: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.turns = LoopTurns()
        self.clock = CpuClock()
        self.epochs = EpochTicker(self.pool.increment_epoch)

    async def load(
        self, artifact: ComponentArtifact, *, fast: bool, report: Callable[[str], None]
    ) -> LoadedComponent:
        """Compile and link a component, once for all resources that share it; reuse compiled code on disk.

        Warm slots reserve memory for each loaded component. Raises `ComponentRejected`, `CodeCacheError` and
        `CodeRejected`.
        """
        key = (artifact.digest, fast)
        async with self._loading.setdefault(key, asyncio.Lock()):
            loaded = self._loaded.get(key)
            if loaded is None:
                link = partial(self._link, artifact, fast=fast, report=report)
                try:
                    loaded = await link()
                except CodeRejected as error:
                    if error.shortage:
                        raise
                    # Compiled for another processor or wasmtime, as in a copied folder: compile it here.
                    error.path.unlink(missing_ok=True)
                    loaded = await link()
                self._loaded[key] = loaded
        if fast or artifact.script is not None:  # Saves in development return to them.
            self._retained[key] = loaded
            self._retained.move_to_end(key)
            while len(self._retained) > MAX_RETAINED_COMPONENTS:
                self._retained.popitem(last=False)
        return loaded

    def is_compiled(self, digest: str) -> bool:
        """Return whether a component can be loaded without its file. Raises `CodeCacheError`."""
        return is_compiled(self.cache, digest, verify=True)

    async def _link(
        self, artifact: ComponentArtifact, *, fast: bool, report: Callable[[str], None]
    ) -> LoadedComponent:
        compiled = await compile_component(
            artifact.component, artifact.digest, self.cache, fast=fast, report=report, slots=self._compiling
        )
        image = compiled.image
        kinds = self.pool.slots
        engines = [slots.engine(compiled.compiler, hosted=image is not None) for slots in kinds]
        # Components with the same machine code are loaded one after another, and share it.
        async with self._loading.setdefault((str(compiled.path), fast), asyncio.Lock()):
            if image is None:
                return await asyncio.to_thread(self._load_whole, artifact, compiled.path, engines)
            return await asyncio.to_thread(self._load_shared, image, engines)

    def _load_whole(
        self, artifact: ComponentArtifact, code: Path, engines: Sequence[Engine]
    ) -> LoadedComponent:
        programs = tuple(
            LinkedComponent(load_component(engine, code), engine, self.runs) for engine in engines
        )
        limits = declared_limits(read_component(artifact.component, artifact.digest))
        return LoadedComponent(programs, limits)

    def _load_shared(self, image: MemoryImage, engines: Sequence[Engine]) -> LoadedComponent:
        try:
            mapped = MappedImage(image)
        except OSError as error:
            raise CodeRejected(image.path, str(error)) from error
        programs = []
        for engine in engines:
            key = image.code, address(engine)
            shared = self._shared.get(key)
            if shared is None:
                component = load_component(engine, image.code)
                self._shared[key] = shared = LinkedComponent(component, engine, self.runs, hosted=True)
            programs.append(shared.prepared_by(mapped.select))
        finalize(programs[0], self.pool.release_image, mapped)
        return LoadedComponent(tuple(programs), image.limits, ComponentUsage(hosted=True))

    async def guest(
        self,
        resource: Resource,
        artifact: ComponentArtifact,
        environment: dict[str, str],
        *,
        fast: bool,
        report: Callable[[str], None],
        doors: Mapping[str, DoorBinding] = NO_DOORS,
    ) -> "Guest":
        """Return a live version of a resource; `environment` has the variables that the platform adds."""
        loaded = await self.load(artifact, fast=fast, report=report)
        return Guest(self, resource, artifact=artifact, loaded=loaded, environment=environment, doors=doors)

    def register(self, execution: Execution, run: RunState) -> None:
        """Connect a run to its host calls, and stop it at its deadline or when the budget is overrun."""
        self.runs[run.context] = run
        self._active.add(execution)
        if self._sampler is None:
            self._sampler = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self._sample)
        if self._reaper is None or execution.deadline_ns < self._due_ns:
            self._reap_at(execution.deadline_ns)

    def unregister(self, execution: Execution, run: RunState) -> None:
        """Remove a run that has ended."""
        del self.runs[run.context]
        self._active.discard(execution)
        if self._ended is not None and not self._active:
            self._ended.set()

    async def run_in_thread(self, project: str, poll: Callable[[], _T]) -> _T:
        """Poll in a worker thread; return only after the thread has released the guest, even if canceled.

        Projects take turns.
        """
        with self.epochs.worker_active():
            return await finish(await self._workers.start(project, poll))

    def _reap_at(self, due_ns: int) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        self._due_ns = due_ns
        seconds = max(0, due_ns + EARLY_NS - time.monotonic_ns()) / 1e9
        self._reaper = asyncio.get_running_loop().call_later(seconds, self._reap)

    def _reap(self) -> None:
        """Stop the runs past their deadline, and schedule the next check at the next deadline.

        That run may end before, so all runs are checked once for each run limit, not at every end of one.
        """
        self._reaper = None
        now, due = time.monotonic_ns(), None
        for execution in self._active:
            if execution.deadline_ns <= now:
                execution.stop("run-limit")
            elif due is None or execution.deadline_ns < due:
                due = execution.deadline_ns
        if due is not None:
            self._reap_at(max(due, now + REAP_NS))

    def _sample(self) -> None:
        """Measure the memory of the process, and admit runs that wait for it."""
        self._sampler = None
        self.budget.sample()
        self.pool.grant_waiting()
        if self._active:
            self._sampler = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self._sample)

    def stop_all(self, project: str | None = None) -> None:
        """Stop all runs, or those of a project that was removed."""
        for execution in list(self._active):
            if project is None or execution.project == project:
                execution.stop("stopping" if project is None else "unknown-host")

    async def aclose(self) -> None:
        """Stop all runs and free all resources."""
        self.stop_all()
        if self._active:
            self._ended = asyncio.Event()
            await self._ended.wait()
        for timer in (self._reaper, self._sampler):
            if timer is not None:
                timer.cancel()
        self.epochs.close()
        self.reclaimer.stop()
        self._pool_threads.shutdown()
        await self.outgoing.aclose()


class Guest:
    """One live version of a dynamic resource."""

    def __init__(
        self,
        runner: Runner,
        resource: Resource,
        *,
        artifact: ComponentArtifact,
        loaded: LoadedComponent,
        environment: dict[str, str],
        doors: Mapping[str, DoorBinding] = NO_DOORS,
    ) -> None:
        self.resource = resource
        self._loaded = loaded
        self.programs, self._use = loaded.programs, loaded.use
        self.runner = runner
        self.script = artifact.script
        self.environment_text = encode_environment({**resource.env, **environment})
        self.memory_limit = split_limit(loaded.memories, resource.memory_limit_mb * MIB)
        self._memory = MemoryProfile(resource.memory_limit_mb * MIB)
        self.usual_stretch = UsualStretch()
        self.run_limit_ns = resource.run_limit_secs * 1_000_000_000
        self.project = environment.get("SVC_PROJECT", "")
        owner = f"{self.project}/{resource.name}"
        policy = OutboundPolicy(owner, Egress.parse(resource.egress), self.project)
        fetch_external = partial(runner.outgoing.fetch, policy)
        doorway = DoorRouter(doors, resource, fetch_external, environment.get("SVC_DEPLOYMENT", ""))
        self.fetch, self.call_door = doorway.fetch, doorway.call
        self._source_map_json = artifact.source_map
        self._source_map: SourceMap | None = None

    def rewrite(self, line: str) -> str | None:
        """Return a printed line with stack frames mapped to the user's files, or `None` to drop the line."""
        if self._source_map_json is None:
            return line
        if self._source_map is None:
            self._source_map = SourceMap.parse(self._source_map_json)
        return self._source_map.rewrite(line)

    async def evaluate(self) -> str | None:
        """Handle one GET request; return why that failed with what the guest printed, or `None`."""
        lines: list[str] = []
        headers = [(b"host", b"localhost")]
        head = Request(method="GET", scheme="http", path="/", query=b"", headers=headers)
        request = GuestRequest(
            exchange=MemoryExchange(head),
            method="GET",
            scheme="http",
            authority="localhost",
            target="/",
            headers=headers,
            env={},
            max_body=0,
            on_line=lambda _, line: lines.append(line),
        )
        report = await self.run(request)
        if report.outcome not in ("guest-failed", "memory-limit", "run-limit"):
            return None
        return "\n".join(lines if report.detail in lines else [*lines, report.detail])

    async def run(self, request: GuestRequest) -> RunReport:
        """Handle one request with a fresh instance."""
        pool, project, memory = self.runner.pool, self.project, RunMemory(self._memory)
        kind = pool.try_acquire(project, self._use, memory)
        if kind is None:
            began = time.monotonic_ns()
            request.trace = request.trace or RequestTrace()
            outcome: Outcome = "overloaded"
            detail = "every instance is busy, or the service is short of memory"
            try:
                with request.trace.measure("wait", "wait for an instance"):
                    kind = await pool.acquire(project, self._use, memory, request.exchange.disconnected)
            except ClientDisconnected:
                outcome, detail = "client-gone", "the client disconnected"
            if kind is None:
                if outcome == "overloaded":
                    limit, grant = pool.reached_quota(project, memory)
                    outcome, detail = ("quota-exceeded", limit) if limit else (outcome, detail)
                    if grant is not None:
                        request.on_notice("WARN", limit, grant)
                return RunReport(outcome=outcome, detail=detail, wall_ns=time.monotonic_ns() - began)
        memory.cold, release = not pool.slots[kind].warm, partial(pool.release, kind, project, memory)
        try:
            return await Execution(self, request, self.programs[kind], memory, release=release).run()
        finally:
            if not memory.closing:
                release()
