"""The replicas of all projects of a node."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from doors.tables.replication import registry
from doors.tables.replication.errors import ReplicationError, storage_failure
from doors.tables.replication.replica import Replica
from doors.tables.sqlite.connections import Error
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.replication import ReplicatedLog

THREADS = 8
RETRY_SECONDS = 1.0
BESIDE_SECONDS = 30.0
"""How often a node asks whether the leader of the logs is beside it, so that it should be the writer."""
MAX_LAGS = 200
"""Maximum copies that one measurement asks about."""
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks a node, which may be this one, to `offer` its copy. Raises `SvcError`."""


class Replicas:
    """Use on one event loop, `of` on any thread."""

    def __init__(self, log: ReplicatedLog, projects: Path) -> None:
        """`projects` has the data folder of each project."""
        self._log, self._projects = log, projects
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tables-apply")
        self._replicas: dict[str, Replica] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Replicate the tables of this process from now on."""
        registry.activate(self._projects, self)
        self._tasks = [
            self._loop.create_task(each) for each in (self._take_part(), self._write_beside_leader())
        ]

    async def _take_part(self) -> None:
        while True:
            with suppress(SvcError):
                async with self._log.take_part(self._answer):
                    await asyncio.Event().wait()
            await asyncio.sleep(RETRY_SECONDS)

    async def _write_beside_leader(self) -> None:
        """While the leader of the logs is beside this node, be the writer of the tables that it has open."""
        while True:
            await asyncio.sleep(BESIDE_SECONDS)
            with suppress(SvcError):
                leads = await self._log.leads()
                for replica in list(self._replicas.values()) if leads else ():
                    await replica.write_here()

    async def _answer(self, name: str, content: bytes) -> bytes:
        return await self._create(self._projects / name).answer(content)

    async def repair(self, name: str, node: str, ask: Ask, *, commit: bool) -> list[str]:
        """Return the nodes whose copies differ from that of a node; `commit`: they take that one instead.

        Raises `SvcError`.
        """
        if not await self._log.last(name):
            raise ReplicationError("not-found", f"{name} has no tables in this fleet")
        if node not in (self._log.node, *self._log.others()):
            raise ReplicationError("unavailable", f"the node {node} does not run", "Start it first.")
        try:
            return list((await ask(node, {"project": name, "commit": commit}))["differing"])
        except SvcError as error:
            message = f"the copy of {node} cannot be taken: {error.message}"
            raise ReplicationError("unavailable", message) from error

    async def offer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the question of `repair`. Raises `SvcError`."""
        replica = self._create(self._projects / question["project"])
        try:
            return {"differing": await replica.offer(commit=question["commit"])}
        except TimeoutError:
            raise ReplicationError("busy", "an owner is changing the tables") from None
        except (Error, OSError) as error:
            raise ReplicationError("storage", storage_failure(error)) from error

    async def lags(self, names: Collection[str]) -> dict[str, int]:
        """Return for how many ms copies have lacked an entry, unless the log does not answer."""
        asked = list(names)[:MAX_LAGS]
        measured = await asyncio.gather(*(self._replicas[name].lag() for name in asked))
        return {name: lag for name, lag in zip(asked, measured, strict=True) if lag is not None}

    def opened(self) -> dict[str, Replica]:
        """Return the replicas that were used since the start, by project."""
        return dict(self._replicas)

    def of(self, data: Path) -> Replica:
        """Return the replica of a project's data folder."""
        replica = self._replicas.get(data.name)
        if replica is not None:
            return replica
        if asyncio._get_running_loop() is self._loop:
            return self._create(data)

        async def create() -> Replica:
            return self._create(data)

        return asyncio.run_coroutine_threadsafe(create(), self._loop).result()

    def _create(self, data: Path) -> Replica:
        if (replica := self._replicas.get(data.name)) is None:
            replica = self._replicas[data.name] = Replica(self._log, data.name, data, self._threads)
        return replica

    async def aclose(self) -> None:
        """Stop following the logs. Writing connections must be closed."""
        registry.deactivate(self._projects)
        await cancel(self._tasks)
        for replica in self._replicas.values():
            await replica.aclose()
        self._threads.shutdown()
