"""The replicas of all projects of a node."""

import asyncio
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from doors.tables.replication import registry
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.replica import Replica
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.replication import ReplicatedLog

THREADS = 8
RETRY_SECONDS = 1.0


class Replicas:
    """Implements `ReplicaSource`. Use on one event loop, `of` on any thread."""

    def __init__(self, log: ReplicatedLog, projects: Path) -> None:
        """`projects` has the data folder of each project."""
        self._log, self._projects = log, projects
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tables-apply")
        self._replicas: dict[str, Replica] = {}
        self._taking_part: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Replicate the tables of this process from now on."""
        registry.activate(self._projects, self)
        self._taking_part = self._loop.create_task(self._take_part())

    async def _take_part(self) -> None:
        while True:
            with suppress(SvcError):
                async with self._log.take_part(self._answer):
                    await asyncio.Event().wait()
            await asyncio.sleep(RETRY_SECONDS)

    async def _answer(self, name: str, content: bytes) -> bytes:
        return await self._create(self._projects / name).answer(content)

    async def repair(self, name: str, node: str, *, commit: bool) -> list[str]:
        """Return the nodes whose copies differ from that of a node; `commit`: they take that one instead.

        Raises `SvcError`.
        """
        if not await self._log.last(name):
            raise ReplicationError("not-found", f"{name} has no tables in this fleet")
        question = json.dumps({"call": "repair", "id": secrets.token_hex(8), "commit": commit}).encode()
        while True:
            asked = self._answer(name, question) if node == self._log.node else None
            content = await (asked or self._log.send(node, name, question))
            if content is None:
                raise ReplicationError("unavailable", f"the node {node} does not run", "Start it first.")
            answer = json.loads(content)
            if "pending" not in answer and "differing" not in answer:
                reason = answer.get("failure", "it has another version of svc")
                raise ReplicationError("unavailable", f"the copy of {node} cannot be taken: {reason}")
            if not answer.get("pending"):
                return list(answer["differing"])
            await asyncio.sleep(RETRY_SECONDS)

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
        if self._taking_part is not None:
            await cancel([self._taking_part])
        for replica in self._replicas.values():
            await replica.aclose()
        self._threads.shutdown()
