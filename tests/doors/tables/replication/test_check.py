"""Copies that differ from the others: damaged files, and rows that were changed outside of the log."""

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.replication.errors import ReplicationError
from doors.tables.sqlite.connections import apsw
from engine.replication import LogMessage
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, asides, run_nodes

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"
INSERT = "INSERT INTO t (v) VALUES ($1)"
FIRST = "SELECT v FROM t WHERE id = 1"
SOUND, DAMAGED = "MARKER-AAAA", "MARKER-BBBB"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.tables.replication.replica.CHECK_PAUSE_SECONDS", 0.01)


async def fill(nodes: list[Node]) -> None:
    """Store a marker, and enough rows that it is in the file of each node."""
    await nodes[0].change(TABLE)
    assert (await nodes[0].send("exec", INSERT, SOUND))[0] == 200
    await nodes[0].change("INSERT INTO t (v) VALUES (hex(randomblob(2000)))")
    for node in nodes:
        assert await node.rows(FIRST) == [(SOUND,)]


async def damage(nodes: list[Node], number: int, logs: MemoryLogs) -> None:
    """Stop a node, change a value in its file, and start it."""
    node = nodes[number]
    await node.close()
    with closing(apsw.Connection(str(node.path))) as connection:
        connection.pragma("wal_checkpoint(truncate)")
    content = node.path.read_bytes()
    assert SOUND.encode() in content
    node.path.write_bytes(content.replace(SOUND.encode(), DAMAGED.encode()))
    nodes[number] = Node(logs, node.data.parents[1], node.data.parent.name)


async def repair(node: Node, *, commit: bool) -> list[str]:
    """Choose the copy of a node."""
    return list((await node.replicas.offer({"project": "shop", "commit": commit}))["differing"])


async def until_put_aside(node: Node) -> None:
    async with asyncio.timeout(60):
        while not asides(node):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [0, 2], ids=["writer", "another"])
def test_damaged_copy_is_built_again_after_it_was_opened(tmp_path: Path, number: int) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await damage(nodes, number, logs)
        await nodes[number].send("query", FIRST)  # Opens the copy.
        await until_put_aside(nodes[number])
        for node in nodes:
            assert await node.rows(FIRST) == [(SOUND,)]
        assert (await nodes[number].send("exec", "UPDATE t SET v = v || '!' WHERE id = 1"))[0] == 200
        for node in nodes:
            assert await node.rows(FIRST) == [(f"{SOUND}!",)]
        assert [bool(asides(node)) for node in nodes] == [at == number for at in range(3)]

    run_nodes(tmp_path, scenario)


@pytest.mark.parametrize("number", [0, 2], ids=["writer", "another"])
@pytest.mark.parametrize("names", ["abc", "ac"], ids=["of three", "of two"])
@pytest.mark.parametrize("stale", [False, True], ids=["fresh", "stale"])
def test_damaged_row_is_neither_read_nor_updated(
    tmp_path: Path, stale: bool, names: str, number: int
) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        at = min(number, len(nodes) - 1)
        await damage(nodes, at, logs)
        status, document = await nodes[at].send("query", FIRST, stale_reads=stale)
        assert (status, document["rows"]) == (200, [{"v": SOUND}])
        assert (await nodes[at].send("exec", "UPDATE t SET v = v || '!' WHERE id = 1"))[0] == 200
        for node in nodes:
            assert await node.rows(FIRST) == [(f"{SOUND}!",)]

    run_nodes(tmp_path, scenario, names)


def test_damaged_row_is_not_updated_after_all_nodes_started(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        for node in nodes:
            await node.close()
        for number, node in enumerate(nodes):
            nodes[number] = Node(logs, tmp_path, node.data.parent.name)
        await damage(nodes, 1, logs)
        await nodes[1].change("UPDATE t SET v = v || '!' WHERE id = 1")
        for node in nodes:
            assert await node.rows(FIRST) == [(f"{SOUND}!",)]

    run_nodes(tmp_path, scenario)


def test_writer_that_cannot_apply_an_entry_gets_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.follower.RETRY_SECONDS", 0.01)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        logs.loses_news = True
        with closing(apsw.Connection(str(nodes[0].path))) as foreign:
            foreign.execute("UPDATE t SET v = 'other' WHERE id = 1")
        await nodes[0].change("UPDATE t SET v = v || '!' WHERE id = 1")
        assert await nodes[0].replicas.of(nodes[0].data)._give(logs.leases["b"])
        logs.loses_news = False
        assert (await nodes[2].send("exec", INSERT, "after"))[0] == 200
        for node in nodes:
            assert await node.rows("SELECT v FROM t WHERE id <> 2") == [("other!",), ("after",)]

    run_nodes(tmp_path, scenario)


def test_position_that_is_no_text_any_more_is_built_again(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await nodes[1].close()
        with closing(apsw.Connection(str(nodes[1].path))) as foreign:
            foreign.execute("UPDATE _svc_replica SET chain = CAST(x'ff' AS TEXT)")
        nodes[1] = Node(logs, tmp_path, "b")
        assert await nodes[1].rows(FIRST) == [(SOUND,)]
        assert asides(nodes[1])

    run_nodes(tmp_path, scenario)


def test_text_that_is_not_unicode_is_compared(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await nodes[0].change("INSERT INTO t (v) VALUES (CAST(x'ff' AS TEXT))")
        writer = nodes[0].replicas.of(nodes[0].data)
        assert await writer.check()
        assert not any(asides(node) for node in nodes)
        with closing(apsw.Connection(str(nodes[1].path))) as foreign:
            foreign.execute("UPDATE t SET v = x'ff' WHERE v = CAST(x'ff' AS TEXT)")
        assert await writer.check()
        await until_put_aside(nodes[1])

    run_nodes(tmp_path, scenario)


def test_rows_changed_outside_of_the_log_are_found_by_a_check(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        writer = nodes[0].replicas.of(nodes[0].data)
        assert await writer.check()
        with closing(apsw.Connection(str(nodes[1].path))) as foreign:
            foreign.execute("DELETE FROM t WHERE id = 1")
        assert await writer.check()
        await until_put_aside(nodes[1])
        assert await nodes[1].rows(FIRST) == [(SOUND,)]

    run_nodes(tmp_path, scenario)


def test_copies_of_which_no_two_are_equal_are_reported_and_not_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        writer = nodes[0].replicas.of(nodes[0].data)
        with closing(apsw.Connection(str(nodes[1].path))) as foreign:
            foreign.execute("DELETE FROM t WHERE id = 1")
        assert not await writer.check()
        assert "the copies of the tables of shop differ, and no two are equal" in caplog.text
        assert not any(asides(node) for node in nodes)

    run_nodes(tmp_path, scenario, "ab")


def test_check_ends_soon_if_a_copy_cannot_be_read(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await nodes[0].change(
            "CREATE TABLE g (id INTEGER PRIMARY KEY, text TEXT)",
            "INSERT INTO g (text) VALUES ('{')",
            "ALTER TABLE g ADD COLUMN parsed AS (json(text))",  # A query of it fails.
        )
        async with asyncio.timeout(60):
            assert await nodes[0].replicas.of(nodes[0].data).check()

    run_nodes(tmp_path, scenario)


def test_chosen_copy_replaces_those_of_all_nodes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        for node in nodes[:2]:
            with closing(apsw.Connection(str(node.path))) as foreign:
                foreign.execute("DELETE FROM t WHERE id = 1")
        assert await repair(nodes[2], commit=False) == ["a", "b"]
        assert await nodes[0].rows(FIRST) == []
        assert await repair(nodes[2], commit=True) == ["a", "b"]
        for node in nodes[:2]:
            await until_put_aside(node)
        for node in nodes:
            assert await node.rows(FIRST) == [(SOUND,)]
        assert await repair(nodes[1], commit=False) == []
        assert (await nodes[0].send("exec", INSERT, "after"))[0] == 200
        assert not asides(nodes[2])

    run_nodes(tmp_path, scenario)


def test_copy_that_lacks_entries_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.tables.replication.follower.APPLY_SECONDS", 0.3)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await nodes[1].close()
        assert (await nodes[0].send("exec", INSERT, "after"))[0] == 200
        last = logs.messages["shop"].pop()
        logs.messages["shop"].append(LogMessage(last.sequence, b".unreadable"))
        nodes[1] = Node(logs, tmp_path, "b")
        await nodes[1].send("query", FIRST)
        with pytest.raises(ReplicationError, match="not up to date"):
            await repair(nodes[1], commit=True)
        since, problem = nodes[1].replicas.of(nodes[1].data).trouble or (0, "")
        assert 0 < since <= time.time_ns()
        assert "entry" in problem
        assert nodes[0].replicas.of(nodes[0].data).trouble is None

    run_nodes(tmp_path, scenario)


def test_entry_that_cannot_be_applied_is_replaced_by_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.follower.RETRY_SECONDS", 0.01)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await fill(nodes)
        await nodes[1].close()
        assert (await nodes[0].send("exec", "UPDATE t SET v = 'new' WHERE id = 1"))[0] == 200
        last = logs.messages["shop"].pop()
        logs.messages["shop"].append(LogMessage(last.sequence, b".unreadable"))
        nodes[1] = Node(logs, tmp_path, "b")
        assert await nodes[1].rows(FIRST) == [("new",)]
        assert (await nodes[1].send("exec", INSERT, "after"))[0] == 200
        assert await nodes[1].rows("SELECT v FROM t WHERE id = 3") == [("after",)]

    run_nodes(tmp_path, scenario, "ab")
