"""The part of a service that only a node of a fleet has: replicas of tables and of records, and questions."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.owner import database_path
from engine.control.project_threads import ProjectThreads
from engine.errors import SvcError
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.errors import FleetError
from engine.fleet.fleet import Fleet
from engine.fleet.members import ASK_SECONDS, PREPARE, TABLES, Document, Prepare, Questions, Tables
from engine.fleet.records import RECORDS, USAGE, FleetRecords
from engine.fleet.tables_log import TablesLog
from engine.manifest.schema import is_name
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.record import format_utc
from engine.timeline.recorder import read_page
from engine.usage.store import USAGE_FILE, UsageStore
from svc_tui.serve.settings import project_dir

REPAIR, REMOVE = "repair", "remove"
REPAIR_SECONDS = 1200.0
"""Longer than a node compares its copy with those of other nodes."""
MAX_WAITING = 512
"""Maximum questions about a project that wait for a thread."""
USAGE_ROWS = 10_000


class NodeOfFleet:
    """Replicas and questions. A service without a fleet has none: it does not call `start`."""

    def __init__(self, data: Path) -> None:
        self.records: FleetRecords | None = None
        self.log: TablesLog | None = None
        self._data = data
        self._stack = AsyncExitStack()

    async def start(self, bucket: JetStreamBucket, fleet: Fleet) -> None:
        """Replicate tables, publish records, ask and answer from now on. Raises `SvcError`."""
        node, presence = fleet.require_node(), fleet.presence
        assert presence is not None
        log = TablesLog(bucket.connection, bucket.namespace, node.fleet, node.node, presence.present)
        await log.create()
        self._replicas = replicas = Replicas(log, self._data / "projects")
        replicas.start()
        self._stack.push_async_callback(replicas.aclose)

        async def tables(question: Document) -> dict[str, Any]:
            """Return how far the copies of a project ("": of all) are behind the log, and what is wrong."""
            project = question["project"]
            folder = project_dir(self._data, project)
            if project and database_path(folder).exists():
                replicas.of(folder)
            opened = {name: each for name, each in replicas.opened.items() if project in ("", name)}
            troubles = [
                {"project": name, "since": format_utc(trouble[0]), "problem": trouble[1]}
                for name, replica in opened.items()
                if (trouble := replica.trouble) is not None
            ]
            lags = [replica.copy.lag_ms for replica in opened.values()]
            return {"lag_ms": max(lags, default=None), "troubles": troubles}

        questions = Questions(bucket.connection, f"{bucket.namespace}.questions", node.node, presence.present)
        self._questions = questions
        questions.answer(TABLES, tables)
        answer_reads(questions, partial(project_dir, self._data))
        questions.answer(REPAIR, replicas.offer)
        await self._stack.enter_async_context(questions.serve())
        self.records = FleetRecords(bucket.connection, bucket.namespace, presence, questions)
        self._stack.push_async_callback(self.records.aclose)
        await self.records.start()
        self.log = log

    def prepare_everywhere(self, prepare: Prepare) -> Prepare:
        """Prepare deployments that other nodes activate from now on; return what asks them to."""
        self._questions.answer(PREPARE, lambda question: prepare(question["project"], question["deployment"]))
        return self._questions.prepare_everywhere

    async def remove(self, project: str) -> None:
        if self.records is not None:
            self.records.remove(project)
            await self._replicas.remove(project)

    def delete_everywhere(
        self, apply: Callable[[str], Awaitable[None]], is_pending: Callable[[str], Awaitable[bool]]
    ) -> Callable[[str], Awaitable[None]]:
        """Return what has the other nodes `apply` the removal of a project, and deletes its log of tables.

        Nodes that do not answer apply it when they follow the bucket again.
        """
        self._questions.answer(REMOVE, lambda question: apply(question["project"]))

        async def delete(project: str) -> None:
            assert self.log is not None
            asking = [self._questions.ask(node, REMOVE, {"project": project}) for node in self.log.others()]
            await asyncio.gather(*asking, return_exceptions=True)
            last = await self.log.last(project)
            if await is_pending(project):
                await self.log.remove(project, last)

        return delete

    async def tables(self, nodes: Collection[str], project: str) -> Tables:
        """See `FindTables`."""
        if self.log is None:
            return Tables()
        asking = [self._questions.ask(node, TABLES, {"project": project}, ASK_SECONDS) for node in nodes]
        answers = await asyncio.gather(self.log.leader(ASK_SECONDS), *asking, return_exceptions=True)
        found = {
            node: answer for node, answer in zip(nodes, answers[1:], strict=True) if isinstance(answer, dict)
        }
        return Tables(answers[0] if isinstance(answers[0], str) else "", found)

    async def repair(self, project: str, node: str, commit: bool) -> list[str]:
        """Return the nodes whose copies of the tables differ from that of a node; `commit`: they take it.

        Raises `SvcError`.
        """
        if self.log is None:
            raise FleetError("this service does not serve a fleet", "Create one with `svc fleet start`.")
        if not await self.log.last(project):
            raise ReplicationError("not-found", f"{project} has no tables in this fleet")
        if node not in (self.log.node, *self.log.others()):
            raise ReplicationError("unavailable", f"the node {node} does not run", "Start it first.")
        question = {"project": project, "commit": commit}
        try:
            return list((await self._questions.ask(node, REPAIR, question, REPAIR_SECONDS))["differing"])
        except SvcError as error:
            message = f"the copy of {node} cannot be taken: {error.message}"
            raise ReplicationError("unavailable", message) from error

    async def aclose(self) -> None:
        """Stop. The tables must be closed."""
        await self._stack.aclose()


def answer_reads(questions: Questions, data_dir: Callable[[str], Path]) -> None:
    """Answer questions about the records and the usage of a project, whose data folder `data_dir` returns.

    Answering raises `SvcError`.
    """
    threads = ProjectThreads("fleet-answers", max_waiting=MAX_WAITING)

    async def read(name: str, page: Callable[[Path, str, Any], Any], question: Document) -> Any:
        if not is_name(project := question["project"]):
            raise SvcError(f'invalid project name "{project[:80]}"')
        file = data_dir(project) / name
        return await threads.of(str(file.parent))(partial(page, file, question["of"], question["after"]))

    questions.answer(RECORDS, partial(read, TIMELINE_FILE, read_page))
    questions.answer(USAGE, partial(read, USAGE_FILE, _read_usage))


def _read_usage(path: Path, node: str, after: Any) -> dict[str, Any]:
    if not path.exists():
        return {"rows": []}
    with closing(UsageStore(path)) as store:
        return {"rows": store.page_of(node, (after[0], after[1]), USAGE_ROWS)}
