"""The threads of writes end when they are idle; those of reads are shared, and their sessions are closed."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from doors.tables.guest import reader, writer
from doors.tables.sqlite.connections import DATA_FOLDER, DATABASE_NAME, close_owner, open_owner
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse
from tests.doors.tables.tables_door import Tables
from tests.support.waiting import until

SLOW = "with recursive n (i) as (select 1 union all select i + 1 from n limit 300000) select count(*) from n"


def test_threads_and_sessions_end_after_a_time_without_statements(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SESSION_SECONDS", 0.05)
    monkeypatch.setattr(writer, "THREAD_SECONDS", 0.05)
    others = set(threading.enumerate())

    def writers() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name == "tables-write"} - others

    for number in range(2):
        assert tables.exec(f"insert into users (name) values ('ann{number}')").status == 200
        assert tables.query(SLOW).rows == [{"count(*)": 300_000}]
        assert tables.opened._database is not None
        readers = tables.opened._database._reader
        until(lambda readers=readers: not writers() and not readers.sessions)
    assert tables.query("select count(*) as n from users where name like 'ann%'").rows == [{"n": 2}]


def test_number_of_threads_does_not_grow_with_that_of_projects(open_tables: Callable[..., Tables]) -> None:
    others = set(threading.enumerate())
    for number in range(16):
        assert open_tables(f"shop{number}").query(SLOW).rows == [{"count(*)": 300_000}]
    names = {each.name for each in set(threading.enumerate()) - others if "tables-" in each.name}
    # A thread that has answered may not be idle yet when the next request comes.
    assert names <= {f"tables-read_{number}" for number in range(4)}


def test_closed_tables_have_no_open_file(tmp_path: Path) -> None:
    folder = tmp_path / DATA_FOLDER
    folder.mkdir()
    owner = open_owner(folder / DATABASE_NAME)
    owner.execute("create table things (id integer primary key)")
    close_owner(owner)

    async def write() -> None:
        tables = TablesDoor().open(DoorContext("shop", folder, lambda entry: None))
        body = json.dumps({"sql": "insert into things default values"}).encode()
        request = DoorRequest("POST", "/v1/exec", query="", headers=(), body=body, caller=Caller("api", ""))
        for _ in range(2):
            answer = tables.answer(request)
            assert not isinstance(answer, DoorResponse) and (await answer).status == 200
        await tables.aclose()

    asyncio.run(write())
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [each for each in links if tmp_path in each.readlink().parents] == []
