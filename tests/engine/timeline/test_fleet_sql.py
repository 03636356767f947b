"""SQL over the timelines of several nodes."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SvcError
from engine.timeline.fleet_sql import FleetSql, TimelineCopy, remove_copies
from tests.engine.timeline.folders import NOW_MS, Folders


def selected(folders: Folders, sql: str, limit: int = 1000) -> dict[str, Any]:
    async def in_thread(work: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(work)

    data = folders.path("n1").parent
    return dict(json.loads(asyncio.run(FleetSql().run(folders, data, in_thread, sql, limit))))


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path)
    for at in range(9):
        folders.lines(f"n{at % 3 + 1}", f"{at}", ms=NOW_MS + at * 1000)
    return folders


def test_statement_reads_all_nodes_and_leaves_no_copy(folders: Folders, tmp_path: Path) -> None:
    found = selected(folders, "select node, text from lines order by time")
    assert found["rows"] == [{"node": f"n{at % 3 + 1}", "text": str(at)} for at in range(9)]
    assert (found["missing"], found["partial"], found["truncated"]) == ([], [], None)
    assert selected(folders, "select * from lines", 2)["truncated"] == "rows"
    with pytest.raises(SvcError, match="no such column"):
        selected(folders, "select absent from lines")
    assert list(tmp_path.glob("*/timeline-copy-*")) == []


def test_result_names_nodes_that_are_missing_or_read_in_part(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.down.add("n3")
    monkeypatch.setattr("engine.timeline.fleet_sql.MAX_RECORDS", 2)
    folders.lines("n2", "last", ms=NOW_MS + 60_000)
    found = selected(folders, "select text from lines order by time")
    assert [row["text"] for row in found["rows"]] == ["3", "6", "7", "last"]
    assert [node["node"] for node in found["missing"]] == ["n3"]
    assert sorted((each["node"], each["since"][:19]) for each in found["partial"]) == [
        ("n1", "2026-09-21T14:13:23"),
        ("n2", "2026-09-21T14:13:27"),
    ]


def test_several_pages_are_read_completely(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.timeline.node_part.COPY_RECORDS", 2)
    found = selected(folders, "select count(*) as n from lines")
    assert (found["rows"], found["partial"]) == ([{"n": 9}], [])


def test_statements_of_one_project_leave_turns_to_others(folders: Folders, tmp_path: Path) -> None:
    async def main() -> None:
        fleet_sql, release = FleetSql(), asyncio.Event()

        async def blocked(work: Callable[[], Any]) -> Any:
            await release.wait()
            return work()

        async def at_once(work: Callable[[], Any]) -> Any:
            return work()

        def run(project: str, in_thread: Callable[..., Any]) -> "asyncio.Task[bytes]":
            folder = tmp_path / project
            folder.mkdir(exist_ok=True)
            sql = "select count(*) as n from lines"
            return asyncio.create_task(fleet_sql.run(folders, folder, in_thread, sql, 10))

        many = [run("greedy", blocked) for _ in range(20)]
        await asyncio.sleep(0)
        assert json.loads(await asyncio.wait_for(run("modest", at_once), 60))["rows"] == [{"n": 9}]
        assert not any(task.done() for task in many)
        release.set()
        await asyncio.gather(*many)

    asyncio.run(main())


def test_copy_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    data = tmp_path / "shop"
    data.mkdir()
    TimelineCopy(data / "timeline-copy-1.db", write=True)._database.close()
    assert list(data.glob("*.db")) != []
    remove_copies(tmp_path)
    assert list(data.glob("*.db*")) == []
