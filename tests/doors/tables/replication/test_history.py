"""The history of rows on the nodes of a fleet, whose log has it."""

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from doors.tables.replication.entry import Origin
from doors.tables.replication.history import At, History, Reverted, find_writes, revert, tables_at
from doors.tables.sqlite.connections import apsw
from doors.tables.sqlite.errors import TablesError
from doors.tables.sqlite.owner import open_for_reading, open_for_writing
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, run_nodes

CREATE = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)"
PRICES = "SELECT id, price FROM item ORDER BY id"


async def history(node: Node, **what: Any) -> History:
    def work() -> History:
        with open_for_reading(node.data) as connection:
            return find_writes(connection, **what)

    return await asyncio.to_thread(work)


async def prices_at(node: Node, at: At) -> list[Any]:
    def work() -> list[Any]:
        with (
            open_for_reading(node.data) as connection,
            tables_at(connection, at, "item") as (path, _),
            closing(apsw.Connection(str(path))) as copy,
        ):
            return copy.execute(PRICES).fetchall()

    return await asyncio.to_thread(work)


async def reverted(node: Node, entry: str) -> Reverted:
    def work() -> Reverted:
        with open_for_writing(node.data, origin=Origin("revert", user="ann")) as connection:
            return revert(connection, entry, plan=False, skip=False)

    return await asyncio.to_thread(work)


def test_history_on_each_node_has_what_all_nodes_wrote(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], _: MemoryLogs) -> None:
        a, b, c = nodes
        await a.change(CREATE)
        assert (await b.send("exec", "INSERT INTO item VALUES (1, 'tea', 10)"))[0] == 200
        before_ns = time.time_ns()
        assert (await c.send("exec", "UPDATE item SET price = 11"))[0] == 200
        await a.change("UPDATE item SET price = 12", "INSERT INTO item VALUES (2, 'salt', 3)")
        for node in nodes:
            found = await history(node, table="item", key=["1"], column="price")
            assert [(each.write.by, each.before, each.after) for each in found.rows] == [
                ("", {"price": 11}, {"price": 12}),
                ("request", {"price": 10}, {"price": 11}),
                ("request", None, {"price": 10}),
            ]
            assert found.rows[1].write.requests == ["1"]
            assert await prices_at(node, At(time_ns=before_ns)) == [(1, 10)]
        done = await reverted(b, found.rows[0].write.entry)
        assert done.applied
        for node in nodes:
            assert await node.rows(PRICES) == [(1, 11)]
        assert (await history(c, table="item", key=["2"])).rows[0].write.user == "ann"

    run_nodes(tmp_path, scenario)


def test_dropped_table_has_a_history_on_each_node(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], _: MemoryLogs) -> None:
        await nodes[0].change(CREATE)
        assert (await nodes[1].send("exec", "INSERT INTO item VALUES (1, 'tea', 10)"))[0] == 200
        before_ns = time.time_ns()
        await nodes[2].change("DROP TABLE item", CREATE)
        assert (await nodes[1].send("exec", "INSERT INTO item VALUES (1, 'salt', 3)"))[0] == 200
        for node in nodes:
            assert await node.rows(PRICES) == [(1, 3)]
            found = await history(node, table="item", key=["1"], column="price")
            assert [(each.operation, each.after) for each in found.rows] == [
                ("insert", {"price": 3}),
                ("delete", None),
                ("insert", {"price": 10}),
            ]
            assert await prices_at(node, At(time_ns=before_ns)) == [(1, 10)]

    run_nodes(tmp_path, scenario)


def test_history_begins_after_the_trimmed_part_of_the_log(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], _: MemoryLogs) -> None:
        node = nodes[0]
        await node.change(CREATE, "INSERT INTO item VALUES (1, 'tea', 10)")
        first_ns = time.time_ns()
        for price in (11, 12, 13):
            await node.change(f"UPDATE item SET price = {price}")
            await nodes[1].rows(PRICES)
            await node.replicas.of(node.data).copy.take_snapshot()
        found = await history(nodes[1], table="item", key=["1"])
        assert [each.after for each in found.rows] == [{"price": 13}]
        with pytest.raises(TablesError, match="the history of item begins at"):
            await prices_at(nodes[1], At(time_ns=first_ns))

    run_nodes(tmp_path, scenario, "ab")
