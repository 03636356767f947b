"""The node that writes to the tables of a project: forwarded writes, and its replacement."""

import asyncio
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from doors.tables.replication import replica
from doors.tables.replication.entry import Entry, chain_of, messages_of
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.sqlite.connections import close_owner, open_owner, open_replica
from doors.tables.sqlite.errors import transaction
from doors.tables.sqlite.owner import open_for_writing
from engine.replication import CALL_SECONDS
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, asides, run_nodes

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT UNIQUE)"
INSERT = "INSERT INTO t (v) VALUES ($1)"
ALL = "SELECT v FROM t ORDER BY id"
COUNT = "SELECT count(*) FROM t"


def entries(logs: MemoryLogs) -> list[Entry]:
    """Return the entries of the log, each of which has one message."""
    return [Entry.decode(message.content[1:]) for message in logs.messages["shop"]]


def writers(logs: MemoryLogs) -> str:
    """Return the nodes of the entries with rows, in order."""
    return "".join(entry.node for entry in entries(logs) if entry.kind == "rows")


def end_lease(logs: MemoryLogs, node: str) -> None:
    """Give a node another lease, as if it had not renewed the former one in time."""
    logs.leases[node] += "x"


def test_write_of_any_node_runs_on_the_writer(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        assert await nodes[0].send("query", COUNT)
        for number in range(9):
            status, document = await nodes[number % 3].send("exec", INSERT, f"{number}")
            assert (status, document) == (200, {"changes": 1, "last_id": number + 1})
            assert await nodes[(number + 1) % 3].rows(COUNT) == [(number + 1,)]
        assert writers(logs) == "a" * 10
        assert {entry.lease for entry in entries(logs)} == {None, logs.leases["a"]}

    run_nodes(tmp_path, scenario)


def test_node_beside_the_leader_becomes_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.tables.replication.replica.BESIDE_SECONDS", 0.01)
    numbers = count()

    async def written(nodes: list[Node], logs: MemoryLogs, leader: str) -> None:
        while writers(logs)[-1] != leader:
            assert (await nodes[1].send("exec", INSERT, f"{next(numbers)}"))[0] == 200
            await asyncio.sleep(0.01)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        for node in nodes:
            assert (await node.send("query", COUNT))[0] == 200
        for leader in "cbac":
            logs.leader = leader
            await written(nodes, logs, leader)
        logs.leader = ""
        held = len(entries(logs))
        await asyncio.sleep(0.05)
        assert len(entries(logs)) == held  # No lease is appended without a reason.

    run_nodes(tmp_path, scenario)


def test_owner_of_another_node_becomes_the_writer(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        await nodes[1].change("INSERT INTO t (v) VALUES ('b')")
        assert (await nodes[0].send("exec", INSERT, "through b"))[0] == 200
        await nodes[2].change("INSERT INTO t (v) VALUES ('c')")
        assert await nodes[0].rows(ALL) == [("b",), ("through b",), ("c",)]
        assert writers(logs)[:2] == "ab"
        assert writers(logs)[-1] == "c"

    run_nodes(tmp_path, scenario)


def test_write_runs_on_its_own_node_if_the_writer_serves_no_guests(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        assert (await nodes[1].send("exec", INSERT, "b"))[0] == 200
        assert writers(logs) == "ab"

    run_nodes(tmp_path, scenario, "ab")


def test_queries_and_batches_that_only_read_run_on_their_own_node(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, "INSERT INTO t (v) VALUES ('a')")
        assert (await nodes[1].send("query", ALL))[0] == 200
        logs.loses_calls = True
        reading = {"statements": [{"sql": ALL}, {"sql": COUNT}], "stale_ok": True}
        status, document = await nodes[1].send("batch", "", **reading)
        assert status == 200, document
        assert [each["rows"] for each in document["results"]] == [[{"v": "a"}], [{"count(*)": 1}]]

    run_nodes(tmp_path, scenario, "ab")


def test_problem_of_a_forwarded_write_is_that_of_the_caller(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        status, document = await second.send("exec", INSERT, "a")
        assert (status, document["code"], document["request_id"]) == (409, "constraint", "1")
        status, document = await second.send("exec", "no sql")
        assert (status, document["code"]) == (400, "sql-error")
        assert writers(logs) == "aa"

    run_nodes(tmp_path, scenario, "ab")


def test_forwarded_write_without_an_answer_is_repeated_only_with_a_key(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        assert await second.rows(COUNT) == [(1,)]
        logs.loses_calls = True
        status, document = await second.send("exec", INSERT, "b")
        assert (status, document["code"]) == (503, "unavailable")
        assert "the node a did not answer the write, which may be stored or not" in document["detail"]
        sending = asyncio.create_task(second.send("exec", INSERT, "c", idempotency_key="k"))
        while await first.rows(COUNT) != [(3,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        logs.loses_calls = False
        status, document = await sending
        assert (status, document["last_id"]) == (200, 3)
        assert await first.rows(ALL) == [("a",), ("b",), ("c",)]

    run_nodes(tmp_path, scenario, "ab")


def test_node_replaces_a_writer_whose_lease_is_over(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        assert (await second.send("query", COUNT))[0] == 200
        end_lease(logs, "a")
        assert await second.rows(COUNT) == [(1,)]
        for node in nodes:
            assert (await node.send("exec", INSERT, node.data.parent.name * 2))[0] == 200
        assert writers(logs) == "aabb"
        assert await first.rows(ALL) == [("a",), ("aa",), ("bb",)]

    run_nodes(tmp_path, scenario, "ab")


def test_transaction_of_a_replaced_writer_is_not_stored(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        loop = asyncio.get_running_loop()

        def change() -> None:
            with open_for_writing(first.data) as connection, transaction(connection, "failed"):
                connection.execute("INSERT INTO t (v) VALUES ('late')")
                end_lease(logs, "a")
                asyncio.run_coroutine_threadsafe(second.rows(COUNT), loop).result()

        with pytest.raises(Conflict):
            await asyncio.to_thread(change)
        assert (await second.send("exec", INSERT, "b"))[0] == 200
        assert await first.rows(ALL) == await second.rows(ALL) == [("b",)]

    run_nodes(tmp_path, scenario, "ab")


def test_transaction_that_begins_after_the_lease_of_another_node_is_not_stored(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert await second.rows(COUNT) == [(0,)]
        assert await first.replicas.of(first.data)._give(logs.leases["b"])

        def change() -> None:
            connection = open_owner(first.path, exclusive=False)
            try:
                connection.execute("BEGIN")  # As one that was permitted before, and waited for the file.
                connection.execute("INSERT INTO t (v) VALUES ('late')")
                with pytest.raises(Conflict):
                    connection.execute("COMMIT")
                connection.execute("ROLLBACK")
            finally:
                close_owner(connection)

        await asyncio.to_thread(change)
        assert await second.rows(COUNT) == [(0,)]

    run_nodes(tmp_path, scenario, "ab")


@pytest.mark.parametrize("sql", ["INSERT INTO t (v) VALUES ('b')", "CREATE TABLE u (id INTEGER PRIMARY KEY)"])
def test_owners_of_two_nodes_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        loop = asyncio.get_running_loop()

        def change() -> None:
            with open_for_writing(first.data) as connection, transaction(connection, "failed"):
                connection.execute("INSERT INTO t (v) VALUES ('a')")
                monkeypatch.setattr("doors.tables.replication.replica.WAIT_SECONDS", 0.01)
                refused = second.change(sql)
                with pytest.raises(ReplicationError, match="another node of the fleet is changing") as busy:
                    asyncio.run_coroutine_threadsafe(refused, loop).result()
                assert busy.value.code == "busy"
                monkeypatch.undo()
                waiting.append(
                    asyncio.run_coroutine_threadsafe(second.change("INSERT INTO t (v) VALUES ('c')"), loop)
                )

        waiting: list[asyncio.Future[None]] = []  # type: ignore[assignment]
        await asyncio.to_thread(change)
        await asyncio.wrap_future(waiting[0])  # type: ignore[arg-type]
        assert await first.rows(ALL) == [("a",), ("c",)]

    run_nodes(tmp_path, scenario, "ab")


def test_read_after_a_write_whose_answer_was_lost_has_it_on_all_nodes(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        assert (await nodes[0].send("exec", INSERT, "a"))[0] == 200
        logs.loses_answers = True
        status, document = await nodes[0].send("exec", INSERT, "b")
        assert (status, document["code"]) == (503, "unavailable")
        logs.loses_answers = False
        for node in nodes:
            assert await node.rows(ALL) == [("a",), ("b",)]
        assert (await nodes[1].send("exec", INSERT, "c"))[0] == 200
        assert await nodes[2].rows(ALL) == [("a",), ("b",), ("c",)]

    run_nodes(tmp_path, scenario)


def test_lost_question_is_repeated_if_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "REPEAT_SECONDS", 0.05)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        logs.lost_calls = 2
        async with asyncio.timeout(CALL_SECONDS):
            assert await second.rows(ALL) == [("a",)]
            logs.lost_calls = 2
            assert (await second.send("query", ALL))[0] == 200
            logs.lost_calls = 2
            assert (await second.send("exec", INSERT, "b", idempotency_key="b"))[0] == 200
            await first.change("INSERT INTO t (v) VALUES ('c')")
            logs.lost_calls = 2
            await second.change("INSERT INTO t (v) VALUES ('d')")
        assert logs.lost_calls == 0

    run_nodes(tmp_path, scenario, "ab")


def test_copy_and_log_of_an_older_svc_are_continued(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE, "INSERT INTO t (v) VALUES ('a')")
        assert await second.rows(ALL) == [("a",)]
        for node in nodes:
            await node.close()
            with closing(open_replica(node.path)) as connection:
                connection.execute("ALTER TABLE _svc_replica DROP COLUMN lease")
                connection.execute("UPDATE _svc_replica SET schema_shift = schema_shift - 1")
        chain = chain_of(logs.messages["shop"][-1].content[1:])
        claim = (
            Entry(kind="rows", previous=chain, node="a").encode().replace(b'"rows"', b'"claim","claim":"x"')
        )
        await logs.node("a").append("shop", messages_of(claim), logs.sequence)
        nodes[:] = [Node(logs, tmp_path, name) for name in "ab"]
        await nodes[1].change("ALTER TABLE t ADD COLUMN w", "INSERT INTO t (v, w) VALUES ('b', 1)")
        for node in nodes:
            assert await node.rows("SELECT v, w FROM t ORDER BY id") == [("a", None), ("b", 1)]
            assert asides(node) == []

    run_nodes(tmp_path, scenario, "ab")
