"""Nodes of a fleet within one process: replicas in folders of their own, and one log in memory."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from doors.tables.door import ProjectTables, TablesDoor
from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.errors import transaction
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, Session
from engine.replication import ReplicatedLog
from tests.doors.tables.replication.memory_log import MemoryLogs

T = TypeVar("T")


class Logs(Protocol):
    """The logs of a fleet."""

    def node(self, name: str) -> ReplicatedLog:
        """Return the logs as a node uses them."""


class Node:
    """The tables of the project `shop` on one node."""

    def __init__(self, logs: Logs, root: Path, name: str) -> None:
        self.data = root / name / "shop"
        self.replicas = Replicas(logs.node(name), self.data.parent)
        self.replicas.start()
        context = DoorContext("shop", self.data / "tables", lambda entry: None)
        self.door: ProjectTables = TablesDoor().open(context)

    @property
    def path(self) -> Path:
        return database_path(self.data)

    async def change(self, *statements: str) -> None:
        """Run statements in a transaction of an owner."""

        def work() -> None:
            with open_for_writing(self.data) as connection, transaction(connection, "failed"):
                for statement in statements:
                    connection.execute(statement)

        await asyncio.to_thread(work)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of an owner."""

        def work() -> list[tuple[Any, ...]]:
            with open_for_reading(self.data) as connection:
                return connection.execute(sql).fetchall()

        return await asyncio.to_thread(work)

    async def send(
        self,
        kind: str,
        sql: str,
        *params: Any,
        session: Session | None = None,
        stale_reads: bool = False,
        **members: Any,
    ) -> tuple[int, dict[str, Any]]:
        """Send a request of a guest; return its status and document."""
        statement = {} if kind == "batch" else {"sql": sql, "params": params}
        body = json.dumps({**statement, **members}).encode()
        request = DoorRequest(
            "POST",
            f"/v1/{kind}",
            query="",
            headers=(),
            body=body,
            caller=Caller("web", "1", stale_reads=stale_reads),
            session=session or Session(),
        )
        answer = self.door.answer(request)
        response = answer if isinstance(answer, DoorResponse) else await answer
        return response.status, json.loads(response.body)

    async def close(self) -> None:
        await self.door.aclose()
        await self.replicas.aclose()


def run_nodes(
    root: Path, scenario: Callable[[list[Node], MemoryLogs], Awaitable[T]], names: str = "abc"
) -> T:
    """Run a scenario on new nodes."""

    async def main() -> T:
        logs = MemoryLogs()
        nodes = [Node(logs, root, name) for name in names]
        try:
            return await scenario(nodes, logs)
        finally:
            for node in nodes:
                await node.close()

    return asyncio.run(main())


async def content(node: Node) -> dict[str, Any]:
    """Return the definition and the rows of all tables, with the rowids of those of the project."""
    names = await node.rows(
        "SELECT s.name, sql, iif(wr OR s.name LIKE 'sqlite\\_%' ESCAPE '\\', '*', '_rowid_, *')"
        " FROM sqlite_schema s, pragma_table_list t ON t.name = s.name"
        " WHERE s.type = 'table' AND s.name <> '_svc_replica' ORDER BY s.name"
    )
    return {
        name: (sql, sorted(await node.rows(f'SELECT {columns} FROM "{name}"'), key=repr))
        for name, sql, columns in names
    }


def asides(node: Node) -> list[Path]:
    """Return the files that the node has put aside, without their side files."""
    files = node.path.parent.glob("*.aside-*")
    return [path for path in files if not path.name.endswith(("-wal", "-shm"))]


async def answer(node: Node, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a guest's query once the node answers it."""
    while True:
        status, document = await node.send("query", sql)
        if status == 200:
            return list(document["rows"])
        await asyncio.sleep(0.1)
