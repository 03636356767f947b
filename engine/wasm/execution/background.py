"""The share of a project's instances that runs without a client may have: schedules and jobs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from engine.quota import Quotas
from engine.wasm.execution.pool import Pool

PAUSE_SECONDS = 0.05
"""How often a run that waits looks for requests that wait."""
TURN_SECONDS = 0.004
"""Pause before each run begins: most runs compute for less, so that a request of a client waits for one."""


class BackgroundShare:
    """At most half of the instances of each project, and none while requests of clients wait for one."""

    def __init__(self, pool: Pool, quotas: Quotas) -> None:
        """Share the instances of a pool, or of the quota of a project if that is less."""
        self._pool, self._quotas = pool, quotas.active
        self._running: Counter[str] = Counter()
        self._ended = asyncio.Event()
        self._turn = asyncio.Lock()

    def free(self, project: str) -> int:
        """Return how many runs of a project can begin now."""
        if self._pool.queued():
            return 0
        quota, instances = self._quotas.get(project), self._pool.instances
        if quota is not None and quota.limits.instances is not None:
            instances = min(instances, quota.limits.instances)
        return max(max(1, instances // 2) - self._running[project], 0)

    @asynccontextmanager
    async def run(self, project: str) -> AsyncIterator[None]:
        """Wait until a run of a project can begin, and count it until the context is left."""
        while not self.free(project):
            self._ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), PAUSE_SECONDS)
        self._running[project] += 1
        try:
            async with self._turn:
                await asyncio.sleep(TURN_SECONDS)
            yield
        finally:
            self._running[project] -= 1
            self._ended.set()
