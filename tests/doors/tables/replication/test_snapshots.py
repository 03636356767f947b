"""Snapshots of replicated tables, and nodes that begin with one."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

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
    copy = node.replicas.of(node.data)._copy
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
        reader._copy.begin_write()  # It applies nothing.
        await write_until(logs, nodes[:1], trimmed)
        reader._copy.end_write(None)
        assert await content(nodes[1]) == await content(nodes[0])
        assert not asides(nodes[1])

    scenario_on("abc", scenario, tmp_path)


def test_damaged_copy_is_built_from_a_snapshot(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await write_until(logs, nodes, trimmed)
        nodes[1].replicas.of(nodes[1].data).repair("a test")
        while not asides(nodes[1]):
            assert await content(nodes[1]) == await content(nodes[0])
        assert await content(nodes[1]) == await content(nodes[0])

    scenario_on("ab", scenario, tmp_path)


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
