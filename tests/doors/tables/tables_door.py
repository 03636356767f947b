"""An open tables Door that is called as the engine calls it."""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from doors.tables.door import TablesDoor
from doors.tables.sqlite.connections import DATABASE_NAME, Connection, close_owner, open_owner
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, LogEntry


class Answer:
    """A response, and whether it was synchronous."""

    def __init__(self, response: DoorResponse, synchronous: bool) -> None:
        self.status = response.status
        self.synchronous = synchronous
        self.headers = dict(response.headers)
        self.text = response.body.decode()
        self.document: dict[str, Any] = json.loads(self.text, parse_int=lambda digits: int(digits[:4000]))

    @property
    def rows(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.text
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    @property
    def code(self) -> str:
        assert self.status >= 400, self.text
        return str(self.document["code"])


class Tables:
    """The tables Door of one project, with synchronous methods."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, door: TablesDoor) -> None:
        self.folder = folder
        self.loop = loop
        self.records: list[LogEntry] = []
        self.opened = door.open(DoorContext(folder.name, folder, self.records.append))

    def send(self, path: str, body: bytes, method: str = "POST", **more: Any) -> Answer:
        return self.run(self.send_async(path, body, method, **more))

    async def send_async(self, path: str, body: bytes, method: str = "POST", **more: Any) -> Answer:
        caller = Caller("web", more.get("request", "request-1"), deployment="first")
        answer = self.opened.answer(
            DoorRequest(
                method,
                path,
                query=more.get("query", ""),
                headers=more.get("headers", ()),
                body=body,
                caller=caller,
                call=more.get("call"),
            )
        )
        if isinstance(answer, DoorResponse):
            return Answer(answer, True)
        return Answer(await answer, False)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def query(self, sql: str, *params: Any) -> Answer:
        return self.send("/v1/query", json.dumps({"sql": sql, "params": params}).encode())

    def query_arrays(self, sql: str) -> Answer:
        """Query with rows as arrays of the values that SQLite stores."""
        document = {"sql": sql, "rows": "arrays", "values": "stored"}
        return self.send("/v1/query", json.dumps(document).encode())

    def exec(self, sql: str, *params: Any) -> Answer:
        return self.send("/v1/exec", json.dumps({"sql": sql, "params": params}).encode())

    def batch(self, *statements: tuple[Any, ...]) -> Answer:
        document = [{"sql": sql, "params": params} for sql, *params in statements]
        return self.send("/v1/batch", json.dumps({"statements": document}).encode())

    def exec_async(self, sql: str, *params: Any) -> Coroutine[Any, Any, Answer]:
        return self.send_async("/v1/exec", json.dumps({"sql": sql, "params": params}).encode())

    def owner(self) -> Connection:
        """Return a connection with the rights of migrations."""
        return open_owner(self.folder / DATABASE_NAME)

    def schema(self, *statements: str) -> None:
        connection = self.owner()
        for statement in statements:
            connection.execute("begin immediate")
            connection.execute(statement)
            connection.execute("commit")
        close_owner(connection)

    def close(self) -> None:
        self.run(self.opened.aclose())
