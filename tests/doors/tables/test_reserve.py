"""The reserve of the disk, into which no large database grows."""

from collections.abc import Callable

import pytest

from doors.tables.guest import writer
from doors.tables.sqlite import connections
from engine.files import reserve
from tests.doors.tables.tables_door import Answer, Tables

MIB = 1 << 20


def insert(tables: Tables) -> Answer:
    return tables.exec("insert into files (content) values (zeroblob(900000))")


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call databases of more than 2 MiB large, and look at the disk before each transaction."""
    monkeypatch.setattr(connections, "SMALL_BYTES", 2 * MIB)
    monkeypatch.setattr(writer, "_SPACE_SECONDS", 0)


@pytest.mark.usefixtures("small_files")
def test_large_database_does_not_grow_into_the_reserve(
    open_tables: Callable[..., Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = open_tables("large"), open_tables("small")
    for tables in (large, small):
        tables.schema("create table files (id integer primary key, content blob)")
    for _ in range(4):
        assert insert(large).status == 200
    monkeypatch.setattr(reserve, "RESERVE_SHARE", 1.0)
    monkeypatch.setattr(reserve, "MAX_RESERVE_BYTES", 1 << 60)
    refused = insert(large)
    assert (refused.status, refused.code) == (507, "storage-full")
    assert "are reserved" in large.records[-1].body
    assert insert(small).status == 200
    assert large.exec("delete from files where id = 1").status == 200
    assert insert(large).status == 200, "space that was freed in the file is used"
    assert insert(large).status == 507
    monkeypatch.setattr(reserve, "RESERVE_SHARE", 0.0)
    assert insert(large).status == 200


@pytest.mark.usefixtures("small_files")
def test_quota_holds_while_only_the_reserve_is_free(
    open_tables: Callable[..., Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.sqlite.connections.MAX_BYTES", MIB)
    tables = open_tables("shop")
    tables.schema("create table files (id integer primary key, content blob)")
    monkeypatch.setattr(reserve, "RESERVE_SHARE", 1.0)
    monkeypatch.setattr(reserve, "MAX_RESERVE_BYTES", 1 << 60)
    assert insert(tables).status == 200
    assert insert(tables).status == 507
