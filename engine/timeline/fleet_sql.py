"""SQL of users over the timelines of all nodes of a fleet: a statement reads a copy of their last records."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from engine.files.database_files import remove_database
from engine.peers import Document, NodeAway, Peers
from engine.timeline import sql as timeline_sql
from engine.timeline.database import FIELDS, TimelineDatabase
from engine.timeline.json_format import format_utc

MAX_RECORDS = 100_000
"""Maximum records of a node that a statement reads: the last ones."""
MAX_STATEMENTS = 2
"""Statements that run at once, each of another project; others wait, of a project one after the other."""
PREFIX = "timeline-copy-"
_SUBJECT = "logs"
_COLUMNS = ("cursor", "written_ms", *FIELDS)
_SCHEMA = f"""
create table record (node text not null, {", ".join(_COLUMNS)}, primary key (node, cursor));
create index record_request on record (request_id) where request_id <> '';
create table metric (
  node text not null, resource, name, kind, attributes, unit, description,
  since_ns, time_ns, value, bounds, counts
);
create table origin (only integer primary key, cursor integer not null);
"""
_INSERT = f"insert into record values ({', '.join('?' * (len(_COLUMNS) + 1))})"
_INSERT_METRIC = f"insert into metric values ({', '.join('?' * 12)})"


class TimelineCopy(TimelineDatabase):
    """The records of several nodes. Its tables have the column `node`."""

    def _create_tables(self) -> None:
        self.run(f"{_SCHEMA}pragma user_version = {self.version}")

    def add(self, node: str, rows: Sequence[Sequence[Any]], *, metrics: bool = False) -> None:
        """Add rows of a node: of records, or of metrics."""
        statement = _INSERT_METRIC if metrics else _INSERT
        self.change(lambda: self._database.executemany(statement, [(node, *row) for row in rows]))


class FleetSql:
    """Runs statements over the records of all nodes. Use on one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(MAX_STATEMENTS)
        self._projects = WeakValueDictionary[Path, asyncio.Lock]()

    async def run(
        self,
        peers: Peers,
        folder: Path,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        sql: str,
        limit: int,
    ) -> bytes:
        """Return the result as `engine.timeline.sql.run`, with the members `missing` and `partial`.

        `folder` is the data folder of the project, and gets a temporary copy. Raises `SvcError`.
        """
        path = folder / f"{PREFIX}{secrets.token_hex(6)}.db"
        turn = self._projects.setdefault(folder, asyncio.Lock())
        async with turn, self._turns:
            try:
                copying = _Copying(
                    peers, folder.name, await in_thread(partial(TimelineCopy, path, write=True))
                )
                try:
                    await copying.run(in_thread)
                finally:
                    await in_thread(copying.copy.close)
                result = await in_thread(partial(timeline_sql.run, path, sql, limit))
            finally:
                await in_thread(partial(remove_database, path))
        notes = json.dumps({"missing": copying.missing, "partial": copying.partial})
        return bytes(result[:-1]) + b"," + notes[1:].encode()


class _Copying:
    """Copies the last records of all nodes, page by page."""

    def __init__(self, peers: Peers, project: str, copy: TimelineCopy) -> None:
        self._peers, self._project, self.copy = peers, project, copy
        self.missing: list[Document] = []
        self.partial: list[Document] = []
        self._writing = asyncio.Lock()

    async def run(self, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        async def copy_node(node: str) -> None:
            try:
                await self._copy(node, in_thread)
            except NodeAway as error:
                seen = self._peers.last_seen(node)
                since = format_utc(seen) if seen is not None else None
                self.missing.append({"node": node, "since": since, "reason": error.message})

        await asyncio.gather(*(copy_node(node) for node in await self._peers.nodes()))

    async def _copy(self, node: str, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        async def ask(**question: Any) -> dict[str, Any]:
            return await self._peers.ask(node, _SUBJECT, self._project, question)

        async def add(rows: Sequence[Sequence[Any]], *, metrics: bool = False) -> None:
            async with self._writing:
                await in_thread(partial(self.copy.add, node, rows, metrics=metrics))

        await add((await ask(read="metrics"))["rows"], metrics=True)
        bounds = await ask(read="bounds")
        position, last = max(bounds["after"], bounds["last"] - MAX_RECORDS), bounds["last"]
        begin = position
        while position < last:
            rows = (await ask(read="rows", after=position, last=last))["rows"]
            if not rows:
                break
            if position == begin and rows[0][0] > bounds["first"]:
                since = format_utc(rows[0][_COLUMNS.index("time_ns")])
                self.partial.append({"node": node, "since": since})
            await add(rows)
            position = rows[-1][0]


def remove_copies(projects: Path) -> None:
    """Remove the copies that a killed process left in the data folders of projects."""
    for path in projects.glob(f"*/{PREFIX}*.db"):
        remove_database(path)
