"""A project with jobs, and processes that run them and are killed at a step of their work."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from doors.jobs.door import JOBS, JobsDoor
from doors.tables.door import TablesDoor
from engine.cancellation import cancel
from engine.deploy.serving import Doors
from engine.door import Caller, DoorRequest, DoorResponse
from engine.errors import SvcError
from engine.http.exchange import Exchange, MemoryExchange
from engine.job_store import Ended, JobStore, StoredJob
from engine.jobs.runner import JobRunner
from engine.manifest.model import Project, Resource
from engine.quota import Quotas
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record
from engine.wasm.execution.background import BackgroundShare
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.memory_budget import MemoryBudget
from engine.wasm.execution.pool import Pool

NAME = "shop"
SHOP = Project(NAME, Path("/"), {"worker": Resource("worker", "js", Path("/"))})
Answer = Callable[["World", MemoryExchange], Awaitable[None]]


def pool() -> Pool:
    return Pool(PoolSettings(instances=64, warm=0), 16, MemoryBudget(1 << 30))


async def succeed(_world: "World", exchange: MemoryExchange) -> None:
    await exchange.send_head(204, [])


class World:
    """The Doors of a project, and what reached its gateway: the ids of jobs whose code began and ended."""

    def __init__(self, folder: Path, answer: Answer = succeed) -> None:
        self.answer, self.steps = answer, -1
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.exchanges: list[MemoryExchange] = []
        self.killed, self.retries = asyncio.Event(), True
        self.projects: dict[str, Project] = {NAME: SHOP}
        self.texts: list[str] = []
        self.timeline = TimelineBus()
        self.timeline.subscribe(self._record)
        self.runner: JobRunner | None = None
        self.most = self.running = self.process = 0
        self.unanswered = 0
        """How many claims fail after they were stored."""
        self.last: dict[str, int] = {}
        self.stored: set[str] = set()
        kinds = (TablesDoor(tables=(JOBS,)), JobsDoor())
        self.doors = Doors(kinds, NAME, folder, self.timeline, on_work=self._wake)
        assert self.doors.jobs is not None
        self.store = self.doors.jobs

    def _wake(self, project: str) -> None:
        if self.runner is not None:
            self.runner.wake(project)

    def _record(self, record: Record) -> None:
        if isinstance(record, PlatformRecord):
            self.texts.append(record.text)

    async def step(self) -> None:
        """A point of a process at which it may be killed."""
        self.steps -= 1
        if self.steps == 0:
            self.killed.set()
        if self.killed.is_set():
            await asyncio.Event().wait()

    async def send(self, exchange: Exchange) -> None:
        assert isinstance(exchange, MemoryExchange)
        await self.step()
        id_ = dict(exchange.request.headers)[b"x-svc-job"].decode()
        # Code begins again only in another process, and not once its end was stored.
        assert id_ not in self.stored and (self.retries or self.last.get(id_) != self.process), id_
        self.last[id_] = self.process
        self.begun[id_] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.exchanges.append(exchange)
        try:
            await self.step()
            await self.answer(self, exchange)
            await self.step()
            self.ended[id_] += 1
        finally:
            self.running -= 1

    def start(self, node: str = "", present: Callable[[], set[str]] | None = None) -> None:
        """Start a process."""
        self.killed.clear()
        self.process += 1
        timeline, share = self.timeline, BackgroundShare(pool(), Quotas())
        store = cast(JobStore, SteppingStore(self, self.store))
        self.runner = JobRunner(
            lambda: self.projects,
            lambda _: store,
            self.send,
            lambda _: timeline,
            share,
            node=node,
            present=present,
        )
        self.runner.start()

    async def kill(self) -> None:
        """Kill the process: nothing of it continues."""
        self.killed.set()
        self.runner = None
        await cancel(asyncio.all_tasks() - {asyncio.current_task()})

    async def idle(self) -> bool:
        """Return whether all jobs have run."""
        _, counts = await self.store.list(limit=1)
        return not counts.get("waiting") and not counts.get("running") and not self.running

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(120):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.002)

    async def until_idle(self) -> None:
        """Wait until all jobs have run."""
        await self.until(self.idle)

    async def ask(
        self, door: str, path: str, document: Any, *, trusted: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the document of a response to a guest, or if `trusted` to svc itself."""
        body = json.dumps(document).encode()
        caller = Caller("worker", "01")
        request = DoorRequest("POST", path, query="", headers=(), body=body, caller=caller, trusted=trusted)
        answer = self.doors.open[door].door.answer(request)
        response = answer if isinstance(answer, DoorResponse) else await answer
        return response.status, json.loads(response.body)

    async def add(self, path: str = "/mail", **members: Any) -> str:
        """Add a job, and return its id."""
        status, document = await self.ask("jobs", "/v1/add", {"path": path, **members})
        assert status == 200, document
        return str(document["id"])

    async def batch(self, *statements: tuple[str, Sequence[Any]]) -> tuple[int, dict[str, Any]]:
        """Run statements of a guest in one transaction."""
        document = {"statements": [{"sql": sql, "params": list(params)} for sql, params in statements]}
        return await self.ask("tables", "/v1/batch", document)

    async def aclose(self) -> None:
        if self.runner is not None:
            await self.runner.stop(0)
            await self.runner.aclose()
        await self.doors.aclose()


class SteppingStore:
    """The store as a process sees it: it can be killed before and after each call."""

    def __init__(self, world: World, store: JobStore) -> None:
        self._world, self._store = world, store

    async def _do(self, call: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(call)
        await self._world.step()
        result = await task
        await self._world.step()
        return result

    async def next_due(self) -> int | None:
        due: int | None = await self._do(self._store.next_due())
        return due

    async def claim(self, owner: str, *, until: int, count: int) -> tuple[Sequence[StoredJob], int | None]:
        jobs, following = await self._do(self._store.claim(owner, until=until, count=count))
        if jobs and self._world.unanswered:
            self._world.unanswered -= 1
            raise SvcError("the fleet did not confirm the write, which may be stored or not")
        return jobs, following

    async def body(self, job: StoredJob) -> bytes | None:
        body: bytes | None = await self._do(self._store.body(job))
        return body

    async def end(self, owner: str, ended: Ended) -> None:
        await self._do(self._store.end(owner, ended))
        if ended.done:
            self._world.stored.add(ended.id)

    async def reclaim(self, node: str, owner: str, running: Sequence[str]) -> None:
        await self._do(self._store.reclaim(node, owner, running))
