"""Writes of guests that a node forwards to the node that writes to the same tables."""

import json
from pathlib import Path

import pytest

from doors.tables.replication.entry import Entry
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, run_nodes

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT UNIQUE)"
INSERT = "INSERT INTO t (v) VALUES ($1)"
COUNT = "SELECT count(*) FROM t"


def last_writer(logs: MemoryLogs) -> str:
    """Return the node of the last entry, which has one message."""
    return Entry.decode(logs.messages["shop"][-1].content[1:]).node


def lose_a_conflict(node: Node) -> None:
    """Report a conflict, after which the node forwards writes."""
    node.replicas.of(node.data).forwarding.on_conflict()


def test_node_that_lost_a_conflict_forwards_to_the_last_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        assert await second.rows(COUNT) == [(1,)]
        lose_a_conflict(second)
        status, document = await second.send("exec", INSERT, "b")
        assert (status, document) == (200, {"changes": 1, "last_id": 2})
        assert last_writer(logs) == "a"
        assert await second.rows(COUNT) == [(2,)]
        monkeypatch.setattr("doors.tables.replication.forwarding.FORWARD_SECONDS", -1)
        lose_a_conflict(second)
        assert (await second.send("exec", INSERT, "c"))[0] == 200
        assert last_writer(logs) == "b"

    run_nodes(tmp_path, scenario, "ab")


def test_write_that_lost_a_conflict_runs_on_the_winner(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert await second.rows(COUNT) == [(0,)]
        logs.loses_news = True
        for number in range(1, 100, 2):
            assert (await first.send("exec", INSERT, f"a {number}"))[0] == 200
            status, document = await second.send("exec", INSERT, f"b {number}")
            assert (status, document) == (200, {"changes": 1, "last_id": number + 1})
            if last_writer(logs) == "a":
                return
        raise AssertionError("no conflict")

    run_nodes(tmp_path, scenario, "ab")


def test_problem_of_a_forwarded_write_is_that_of_the_caller(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        assert await second.rows(COUNT) == [(1,)]
        lose_a_conflict(second)
        status, document = await second.send("exec", INSERT, "a")
        assert (status, document["code"], document["request_id"]) == (409, "constraint", "1")
        status, document = await second.send("exec", "no sql")
        assert (status, document["code"]) == (400, "sql-error")

    run_nodes(tmp_path, scenario, "ab")


def test_forwarded_write_without_an_answer_is_repeated_only_with_a_key(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert (await first.send("exec", INSERT, "a"))[0] == 200
        assert await second.rows(COUNT) == [(1,)]
        logs.loses_calls = True
        lose_a_conflict(second)
        status, document = await second.send("exec", INSERT, "b")
        assert (status, document["code"]) == (503, "unavailable")
        assert "the node a did not answer the write, which may be stored or not" in document["detail"]
        lose_a_conflict(second)
        status, document = await second.send("exec", INSERT, "c", idempotency_key="k")
        assert (status, document["last_id"]) == (200, 3)
        assert await first.rows("SELECT v FROM t ORDER BY id") == [("a",), ("b",), ("c",)]

    run_nodes(tmp_path, scenario, "ab")


def test_write_runs_here_if_the_last_writer_does_not_serve_guests(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        assert await second.rows(COUNT) == [(0,)]
        lose_a_conflict(second)
        assert (await second.send("exec", INSERT, "b"))[0] == 200
        assert last_writer(logs) == "b"

    run_nodes(tmp_path, scenario, "ab")


def test_of_two_nodes_that_forward_to_each_other_one_writes(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = nodes
        await first.change(TABLE)
        for node in nodes:
            assert (await node.send("query", COUNT))[0] == 200  # Both serve guests.
            lose_a_conflict(node)

        async def forwarded(source: str, target: Node) -> bytes | None:
            head = {"path": "/v1/exec", "caller": ["web", "1"], "node": source}
            body = {"sql": INSERT, "params": [source]}
            content = json.dumps(head) + "\n" + json.dumps(body)
            return await target.replicas.of(target.data).forwarding.receive(content.encode())

        assert await forwarded("a", second) is None
        assert await forwarded("b", first) is not None
        lose_a_conflict(first)
        assert first.replicas.of(first.data).forwarding.target("b", b"") == ""
        assert second.replicas.of(second.data).forwarding.target("a", b"") == "a"
        assert await second.rows("SELECT v FROM t") == [("b",)]

    run_nodes(tmp_path, scenario, "ab")
