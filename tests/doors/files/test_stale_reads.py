"""Fresh and stale reads of the index of files on nodes of a fleet."""

from pathlib import Path

import pytest

from engine.door import Caller, Session
from tests.doors.files.files_door import Files
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, run_nodes

STALE = Caller("media", "request-1", stale_reads=True)
URL = "/v1/files/a"


def test_stale_read_has_the_last_write_of_its_session(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = Files(nodes[0].data), Files(nodes[1].data)
        assert (await first.put("a", b"1")).status == 201
        assert (await second.ask("HEAD", URL)).headers["content-length"] == "1"
        logs.loses_news = True
        session = Session()
        assert (await first.ask("PUT", URL, b"22", session=session)).status == 201
        assert session.written == logs.sequence
        seen = [
            await second.ask("HEAD", URL, client=True, caller=STALE, session=each)
            for each in (Session(), session)
        ]
        assert [each.headers["content-length"] for each in seen] == ["1", "2"]
        assert (await first.ask("PUT", URL, b"333")).status == 201
        listed = [await second.ask("GET", "/v1/files", caller=STALE), await second.ask("GET", "/v1/files")]
        assert [each.document["files"][0]["size"] for each in listed] == [2, 3]

    run_nodes(tmp_path, scenario)


def test_stale_reads_continue_without_majority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.tables.replication.replica.WRITER_SECONDS", 0.2)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second = Files(nodes[0].data), Files(nodes[1].data)
        assert (await first.put("a", b"1")).status == 201
        assert (await second.ask("HEAD", URL)).status == 200
        logs.available = False
        assert (await second.ask("HEAD", URL, caller=STALE)).status == 200
        refused = await second.ask("GET", URL)
        assert (refused.status, refused.code) == (503, "unavailable")
        logs.available = True

    run_nodes(tmp_path, scenario)
