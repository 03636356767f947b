"""Threads of a project's tables end when they are idle, and start again."""

import threading

import pytest

from doors.tables.guest import reader, writer
from tests.doors.tables.tables_door import Tables
from tests.support.waiting import until

SLOW = "with recursive n (i) as (select 1 union all select i + 1 from n limit 300000) select count(*) from n"


def test_threads_end_after_a_time_without_statements(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "THREAD_SECONDS", 0.05)
    monkeypatch.setattr(writer, "THREAD_SECONDS", 0.05)
    others = set(threading.enumerate())

    def threads() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name.startswith("tables-")} - others

    for number in range(2):
        assert tables.exec(f"insert into users (name) values ('ann{number}')").status == 200
        assert tables.query(SLOW).rows == [{"count(*)": 300_000}]
        until(lambda: not threads())
    assert tables.query("select count(*) as n from users where name like 'ann%'").rows == [{"n": 2}]
