"""Copies of tables on disks that are full or damaged, and files that cannot be opened."""

import asyncio
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.sqlite.connections import apsw
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, answer, asides, run_nodes
from tests.support.examples import is_fuzzing
from tests.support.full_disk import ROOT, on_small_disk

PROGRAM = "tests.doors.tables.replication.full_disk_program"
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"
FILL = (
    "INSERT INTO t WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i, i FROM n"
)
TOTAL = "SELECT count(*), sum(id) FROM t"
EXPECTED = [(3000, 3000 * 3001 // 2)]


@pytest.mark.slow
def test_full_disk_is_reported_and_retried(tmp_path: Path) -> None:
    assert on_small_disk(PROGRAM, tmp_path, "nodes", 24) == "whole\n"


@pytest.mark.slow
@pytest.mark.fuzz
def test_disk_that_fails_at_any_step_leaves_whole_snapshots(tmp_path: Path) -> None:
    first, distance = ("1", "1") if is_fuzzing() else ("2", "7")
    module = "tests.doors.tables.replication.failing_snapshots"
    command = [sys.executable, "-m", module, str(tmp_path), first, distance]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = process.stdout + process.stderr
    assert re.fullmatch(r"whole, after [1-9][0-9]* and [1-9][0-9]* failures\n", process.stdout), printed


def test_file_that_cannot_be_opened_is_reported_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.follower.APPLY_SECONDS", 1.5)
    file = tmp_path / "b" / "shop" / "tables" / "tables.db"
    file.mkdir(parents=True)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, FILL)
        status, document = await nodes[1].send("query", TOTAL)
        assert (status, document["code"]) == (503, "unavailable")
        assert "cannot open or write tables/tables.db: check its permissions" in document["detail"]
        assert [path.name for path in file.parent.iterdir()] == ["tables.db"]
        file.rmdir()
        await answer(nodes[1], TOTAL)
        assert await nodes[1].rows(TOTAL) == EXPECTED

    run_nodes(tmp_path, scenario, "ab")


@pytest.mark.parametrize("begin", [0, 100, 4096 * 2, 4096 * 8])
def test_damaged_file_is_put_aside_and_built_from_the_log(tmp_path: Path, begin: int) -> None:
    async def main() -> None:
        logs = MemoryLogs()
        first, second = Node(logs, tmp_path, "a"), Node(logs, tmp_path, "b")
        await first.change(TABLE, FILL)
        assert await second.rows(TOTAL) == EXPECTED
        await second.close()
        content = bytearray(second.path.read_bytes())
        content[begin : begin + 64] = b"\xff" * 64
        second.path.write_bytes(content)
        await first.change("UPDATE t SET v = 'x' WHERE id % 2 = 0")
        second = Node(logs, tmp_path, "b")
        await answer(second, TOTAL)
        assert await second.rows(TOTAL) == EXPECTED
        assert await second.rows("PRAGMA integrity_check") == [("ok",)]
        assert bytes(content[: begin + 64]) == asides(second)[0].read_bytes()[: begin + 64]
        await first.close()
        await second.close()

    asyncio.run(main())


def test_damage_that_a_reader_finds_is_repaired(tmp_path: Path) -> None:
    async def main() -> None:
        logs = MemoryLogs()
        first, second = Node(logs, tmp_path, "a"), Node(logs, tmp_path, "b")
        await first.change(TABLE, FILL)
        assert await second.rows(TOTAL) == EXPECTED
        with closing(apsw.Connection(str(second.path))) as connection:
            connection.execute("PRAGMA wal_checkpoint(truncate)")
        with second.path.open("r+b") as file:
            file.seek(4096 * 8)
            file.write(b"\xff" * 64)
        status, document = await second.send("query", "SELECT sum(length(v)) AS n FROM t")
        assert (status, document["code"]) == (500, "storage-damaged")
        await answer(second, "SELECT sum(length(v)) AS n FROM t")
        assert await second.rows("PRAGMA integrity_check") == [("ok",)]
        await first.close()
        await second.close()

    asyncio.run(main())
