"""Runs guests: admission, one instance a request, limits, metering.

Owns the `Runner` (shared by all Resources) and `Guest` (one live version of one Resource). How a single
run goes from start to report is in `drive.py`.
"""

import asyncio
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.sourcemap import SourceMap
from engine.wasm.compile import compile_component, load_component
from engine.wasm.config import MIB, PoolSettings, engine
from engine.wasm.drive import Drive
from engine.wasm.egress import Egress
from engine.wasm.exchange import Exchange, Outcome, RunReport
from engine.wasm.linker import Program
from engine.wasm.outgoing import Outgoing
from engine.wasm.run import Run

EPOCH_SECONDS = 0.01
REAP_SECONDS = 0.02
PROGRAMS = 64


class Runner:
    """The host of every guest of this process. Make, use and close it on one event loop."""

    def __init__(self, cache: Path, pool: PoolSettings | None = None, *, queue: int = 1024) -> None:
        """`cache` keeps compiled code; `queue` is how many requests may wait for a free instance."""
        pool = pool or PoolSettings()
        self.cache = cache
        self.runs: dict[int, Run] = {}
        self.workers = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix="guest")
        self.outgoing = Outgoing()
        self.engine = engine(pool)
        self._programs: OrderedDict[tuple[str, bool], Program] = OrderedDict()
        self._free = asyncio.Semaphore(pool.instances)
        self._queue = queue
        self._waiting = 0
        self._active: set[Drive] = set()
        self._idle = asyncio.Event()
        self._reaper: asyncio.TimerHandle | None = None
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="epoch", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        while not self._stop.wait(EPOCH_SECONDS):
            self.engine.increment_epoch()

    async def load(
        self, artifact: ComponentArtifact, *, fast: bool, report: Callable[[str], None]
    ) -> Program:
        """Compile (or find compiled) and link a component. Raises `ComponentRejected`."""
        key = (artifact.digest, fast)
        program = self._programs.get(key)
        if program is None:
            compiled = await compile_component(
                artifact.component, artifact.digest, self.cache, fast=fast, report=report
            )
            program = Program(self.engine, load_component(self.engine, compiled), self.runs)
            self._programs[key] = program
            while len(self._programs) > PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return program

    async def guest(
        self,
        resource: Resource,
        artifact: ComponentArtifact,
        environment: dict[str, str],
        *,
        fast: bool,
        report: Callable[[str], None],
    ) -> "Guest":
        """Return a live version of a Resource; `environment` is the platform's part of the guest's."""
        return Guest(
            self, resource, artifact, await self.load(artifact, fast=fast, report=report), environment
        )

    async def admit(self) -> bool:
        """Wait for a free instance; `False` when too many wait already."""
        if self._free.locked():
            if self._waiting >= self._queue:
                return False
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        return True

    def release(self) -> None:
        """Give an instance back."""
        self._free.release()

    def watch(self, drive: Drive) -> None:
        """Stop this run when its time is over."""
        self._active.add(drive)
        self._idle.clear()
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap)

    def unwatch(self, drive: Drive) -> None:
        """Forget a run that is over."""
        self._active.discard(drive)
        if not self._active:
            self._idle.set()

    def _reap(self) -> None:
        now = time.monotonic_ns()
        for drive in [drive for drive in self._active if drive.deadline_ns <= now]:
            drive.stop("run-limit")
        self._reaper = (
            asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap) if self._active else None
        )

    def stop_all(self, reason: Outcome = "stopping") -> None:
        """End every run that is under way."""
        for drive in list(self._active):
            drive.stop(reason)

    async def aclose(self) -> None:
        """End all runs and free what the process holds."""
        self.stop_all()
        if self._active:
            await self._idle.wait()
        if self._reaper is not None:
            self._reaper.cancel()
        self._stop.set()
        self._ticker.join()
        self.workers.shutdown()
        await self.outgoing.aclose()


class Guest:
    """One live version of a dynamic Resource."""

    def __init__(
        self,
        runner: Runner,
        resource: Resource,
        artifact: ComponentArtifact,
        program: Program,
        environment: dict[str, str],
    ) -> None:
        self.resource = resource
        self.program = program
        self.runner = runner
        self.script = artifact.script
        self.environment = {**resource.env, **environment}
        self.memory_limit = resource.memory_limit_mb * MIB
        self.run_limit_ns = resource.run_limit_secs * 1_000_000_000
        self.fetch = partial(runner.outgoing.fetch, Egress.parse(resource.egress))
        self._source_map_json = artifact.source_map
        self._source_map: SourceMap | None = None

    def rewrite(self, line: str) -> str | None:
        """Return a printed line with stack frames that name the user's files; `None` drops the line."""
        if self._source_map_json is None:
            return line
        if self._source_map is None:
            self._source_map = SourceMap.parse(self._source_map_json)
        return self._source_map.rewrite(line)

    async def run(self, exchange: Exchange) -> RunReport:
        """Answer one request with a fresh instance."""
        if not await self.runner.admit():
            return RunReport("overloaded", "every instance is busy", None, 0, 0, None, 0, 0)
        try:
            return await Drive(self, exchange).run()
        finally:
            self.runner.release()
