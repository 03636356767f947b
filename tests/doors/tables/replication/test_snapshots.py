"""Snapshots of replicated tables, and nodes that begin with one."""

import asyncio
import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from doors.tables.replication.copy import still_file
from doors.tables.sqlite.connections import apsw, close_owner, open_owner
from engine.replication import LogSnapshots
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, asides, content, run_nodes

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)"
NUMBERS = "CREATE TABLE n (id INTEGER PRIMARY KEY, v)"
INTERVAL = 50_000


@pytest.fixture(autouse=True)
def small_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.tables.replication.follower.SNAPSHOT_BYTES", INTERVAL)


async def write_until(
    logs: MemoryLogs, nodes: list[Node], condition: Callable[[LogSnapshots], bool]
) -> LogSnapshots:
    """Write on all nodes in turn, but not while a snapshot is stored, until a condition holds."""
    async with asyncio.timeout(120):
        for number in count():
            found = logs.snapshots.get("shop", LogSnapshots())
            if condition(found):
                break
            node = nodes[number % len(nodes)]
            status, _ = await node.send("exec", "INSERT INTO t (v) VALUES ($1)", f"{number}")
            assert status == 200
            if number % 7 == 0:
                await node.change(
                    "DELETE FROM n WHERE id % 3 = 0", "INSERT INTO n (v) VALUES (1), (2), (3), (4)"
                )
            for _ in iter(lambda: any(map(takes_snapshot, nodes)), False):
                await asyncio.sleep(0.01)
    return found


def takes_snapshot(node: Node) -> bool:
    copy = node.replicas.of(node.data).copy
    return copy.opened and math.isinf(copy._snapshot_due)


def trimmed(snapshots: LogSnapshots) -> bool:
    return snapshots.trimmed > 0


def scenario_on(
    names: str, scenario: Callable[[list[Node], MemoryLogs], Awaitable[None]], root: Path
) -> None:
    async def prepare(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, NUMBERS)
        await scenario(nodes, logs)

    run_nodes(root, prepare, names)


def test_node_that_starts_after_trimming_is_equal(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        found = await write_until(logs, nodes, trimmed)
        assert len(found.stored) == 2
        assert logs.messages["shop"][0].sequence > found.trimmed == found.stored[1].sequence
        late = Node(logs, tmp_path, "late")
        assert await content(late) == await content(nodes[0])
        await late.change("ALTER TABLE t ADD COLUMN w DEFAULT 7", "UPDATE n SET v = rowid")
        await nodes[1].change("ALTER TABLE t DROP COLUMN w", "DELETE FROM n WHERE rowid % 2 = 0")
        expected = await content(late)
        for node in nodes:
            assert await content(node) == expected
        for node in (*nodes, late):
            assert not asides(node)
        await late.close()

    scenario_on("ab", scenario, tmp_path)


def test_node_that_returns_after_its_position_was_trimmed_is_equal(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        away = Node(logs, tmp_path, "away")
        await content(away)
        await away.close()
        await write_until(logs, nodes, trimmed)
        away = Node(logs, tmp_path, "away")
        assert await content(away) == await content(nodes[0])
        assert (await away.send("exec", "INSERT INTO t (v) VALUES ('back')"))[0] == 200
        assert await content(away) == await content(nodes[0])
        assert not asides(away)
        await away.close()

    scenario_on("ab", scenario, tmp_path)


def test_node_whose_position_is_trimmed_while_it_runs_is_equal(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await content(nodes[1])
        reader = nodes[1].replicas.of(nodes[1].data)
        reader.copy.begin_write()  # It applies nothing.
        await write_until(logs, nodes[:1], trimmed)
        reader.copy.end_write(None)
        assert await content(nodes[1]) == await content(nodes[0])
        assert not asides(nodes[1])

    scenario_on("abc", scenario, tmp_path)


def test_damaged_copy_is_built_from_a_snapshot(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await write_until(logs, nodes, trimmed)
        nodes[1].replicas.of(nodes[1].data).copy.repair("a test")
        while not asides(nodes[1]):
            assert await content(nodes[1]) == await content(nodes[0])
        assert await content(nodes[1]) == await content(nodes[0])

    scenario_on("ab", scenario, tmp_path)


@pytest.mark.slow
def test_corrupt_snapshot_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await write_until(logs, nodes, trimmed)
        expected = await content(nodes[0])
        await nodes.pop().close()  # It may be taking another snapshot.
        found = logs.snapshots["shop"]
        del logs.files[found.stored[0].digest]
        late = Node(logs, tmp_path, "late")
        assert await content(late) == expected
        await late.close()
        del logs.files[found.stored[1].digest]
        late = Node(logs, tmp_path, "later")
        status, document = await late.send("query", "SELECT 1 AS one")
        assert (status, document["code"]) == (503, "unavailable")
        assert "the snapshots of the tables of shop are corrupt" in document["detail"]
        await late.close()

    scenario_on("ab", scenario, tmp_path)


def test_log_and_files_stay_bounded(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        sizes = []
        for _ in range(5):
            before = logs.snapshots.get("shop", LogSnapshots()).trimmed
            await write_until(logs, nodes, lambda found, before=before: found.trimmed > before)  # type: ignore[misc]
            sizes.append(len(logs.messages["shop"]))
        assert max(sizes) <= 5 * INTERVAL // 4096, sizes
        for node in nodes:
            assert not list(node.path.parent.glob("*.new*"))

    scenario_on("abc", scenario, tmp_path)


MOVE = (
    "UPDATE t SET n = n + 1, pad = randomblob(length(pad) % 4000 + 99) WHERE id = ?",
    "UPDATE t SET n = n - 1 WHERE id = ?",
)


def test_file_is_one_state_while_others_commit(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "tables.db"
    path.parent.mkdir()
    owner = open_owner(path)
    owner.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, pad BLOB)")
    for _ in range(1000):
        owner.execute("INSERT INTO t (n, pad) VALUES (0, randomblob(1000))")
    ends, committed = threading.Event(), threading.Event()

    def write() -> None:
        connection = open_owner(path)
        connection.execute("PRAGMA wal_autocheckpoint = 5")
        for number in count():
            if ends.is_set():
                break
            connection.execute("BEGIN IMMEDIATE")
            for statement, id in zip(MOVE, (number % 1000 + 1, number * 7 % 1000 + 1), strict=True):
                connection.execute(statement, (id,))
            connection.execute("COMMIT")
            committed.set()
        close_owner(connection)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(10):
            copied = tmp_path / f"{number}.db"
            with still_file(path) as (position, _, pieces), copied.open("wb") as file:
                for piece in pieces:
                    committed.clear()
                    assert committed.wait(60)
                    file.write(piece)
            with closing(sqlite3.connect(copied)) as copy:
                assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert copy.execute("SELECT sum(n), count(*) FROM t").fetchone() == (0, 1000)
                assert copy.execute("SELECT sequence FROM _svc_replica").fetchone() == (position.sequence,)
    finally:
        ends.set()
        writer.join()
        close_owner(owner)


def test_snapshot_waits_for_transactions_that_read_older_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.copy.STILL_SECONDS", 0)
    path = tmp_path / "tables" / "tables.db"
    path.parent.mkdir()
    owner, reader = open_owner(path), open_owner(path)
    owner.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM t").get == 0
    owner.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(apsw.BusyError, match="another connection reads the tables"), still_file(path):
        pass
    reader.execute("COMMIT")
    with still_file(path) as (_, _, pieces):
        assert len(b"".join(pieces)) == path.stat().st_size
    close_owner(reader)
    close_owner(owner)


def test_snapshot_waits_for_a_checkpoint_of_another_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.copy.STILL_SECONDS", 0)
    path = tmp_path / "tables" / "tables.db"
    path.parent.mkdir()
    owner, reader, other = open_owner(path), open_owner(path), open_owner(path)
    owner.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM t").get == 0
    owner.execute("INSERT INTO t VALUES (1)")
    other.set_busy_timeout(60_000)  # It has the lock of checkpoints until the reader has ended.

    def copy_all() -> None:
        while other.execute("PRAGMA wal_checkpoint(FULL)").get[0]:
            pass

    checkpoint = threading.Thread(target=copy_all)
    checkpoint.start()
    while owner.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall() != [(1, -1, -1)]:
        pass
    with pytest.raises(apsw.BusyError), still_file(path):
        pass
    reader.execute("COMMIT")
    checkpoint.join()
    with still_file(path) as (_, _, pieces):
        assert len(b"".join(pieces)) == path.stat().st_size
    for connection in (owner, reader, other):
        close_owner(connection)
