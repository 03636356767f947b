"""Database files: open, close, damage, size limits and missing folders."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from doors.tables.sqlite.connections import DATABASE_NAME
from doors.tables.sqlite.errors import TablesError
from doors.tables.sqlite.owner import database_path, measure, open_for_writing
from engine.door import Stored
from engine.grant import Grant
from engine.quota import Quota, change_command
from tests.doors.tables.tables_door import Answer, Tables

Open = Callable[..., Tables]


def test_rows_persist_after_reopen(tables: Tables, open_tables: Open) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    tables.close()
    second = open_tables()
    assert second.query("select name from users").rows == [{"name": "Ada"}]


def test_close_leaves_one_file_and_no_open_descriptors(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    tables.query("select 1 as a where 'a' like 'a'")
    tables.close()
    assert [path.name for path in tables.folder.iterdir()] == [DATABASE_NAME]
    opened = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    assert not any(str(tables.folder) in name for name in opened)


def test_glance_distinguishes_no_table_from_a_file_that_cannot_be_opened_now(tables: Tables) -> None:
    def glance(name: str) -> object:
        return asyncio.run(tables.opened.glance(f"select name from {name}"))

    path, log = tables.opened.path, tables.opened.path.with_name(f"{DATABASE_NAME}-wal")
    assert glance("users") is None
    tables.exec("insert into users (name) values ('Ada')")
    tables.close()
    assert (glance("users"), glance("others")) == ("Ada", None)
    assert [each.name for each in tables.folder.iterdir()] == [DATABASE_NAME]
    log.mkdir()  # It fails as without descriptors.
    with pytest.raises(
        TablesError, match=r"cannot read the tables of \w+: cannot open or write tables/tables\.db"
    ):
        glance("users")
    log.rmdir()
    assert glance("users") == "Ada"
    path.write_bytes(b"damaged" * 1000)
    assert glance("users") is None


def test_size_of_tables_counts_the_write_ahead_log(tmp_path: Path) -> None:
    with open_for_writing(tmp_path) as connection:
        connection.execute("create table t (name); insert into t values (hex(zeroblob(500000)))")
        path = database_path(tmp_path)
        sizes = {file.name: file.stat().st_size for file in path.parent.iterdir()}
        assert sizes[f"{path.name}-wal"] > 1_000_000
        assert measure(tmp_path, {})["tables"] == Stored(1, sum(sizes.values()), 0)
        for statement in ("begin immediate", "insert into t values (hex(zeroblob(1000)))", "commit"):
            connection.execute(statement)
        stored = measure(tmp_path, {})["tables"]
        assert 2000 > (stored.log_bytes or 0) > 100


def test_open_without_requests_creates_no_file(open_tables: Open) -> None:
    tables = open_tables("quiet")
    tables.close()
    assert list(tables.folder.iterdir()) == []


def test_first_request_creates_missing_folder(open_tables: Open) -> None:
    tables = open_tables("fresh")
    tables.folder.rmdir()
    assert tables.query("select 1 as a").rows == [{"a": 1}]


def test_close_finishes_pending_writes(tables: Tables) -> None:
    tables.query("select 1 as warm")

    async def write_and_close() -> list[int]:
        writes = [
            asyncio.ensure_future(tables.exec_async(f"insert into users (name) values ('u{i}')"))
            for i in range(200)
        ]
        await asyncio.sleep(0)
        await tables.opened.aclose()
        return [(await each).status for each in writes]

    assert set(tables.run(write_and_close())) == {200}
    assert tables.query("select 1").status == 503
    with closing(sqlite3.connect(tables.folder / DATABASE_NAME)) as file:
        assert file.execute("select count(*) from users").fetchone() == (200,)


def test_close_interrupts_endless_read(tables: Tables) -> None:
    tables.query("select 1 as warm")
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) as n from n"
    forever = json.dumps({"sql": endless}).encode()

    async def read_and_close() -> int:
        read = asyncio.ensure_future(tables.send_async("/v1/query", forever))
        await asyncio.sleep(0.05)
        await tables.opened.aclose()
        return (await read).status

    assert tables.run(read_and_close()) == 503


@pytest.mark.parametrize(
    "content", [b"this is no database, and never was one\n" * 1000, b"x", b"\0" * 100_000]
)
def test_invalid_database_file_is_reported_and_unchanged(
    tables: Tables, open_tables: Open, content: bytes
) -> None:
    broken = open_tables("broken")
    (broken.folder / DATABASE_NAME).write_bytes(content)
    for answer in (broken.query("select 1 as a"), broken.exec("insert into users (name) values ('x')")):
        assert (answer.status, answer.code) == (500, "storage-damaged")
        assert str(broken.folder) not in answer.text
    assert (broken.folder / DATABASE_NAME).read_bytes() == content
    assert [path.name for path in broken.folder.iterdir()] == [DATABASE_NAME]
    assert len(broken.records) == 1
    assert (broken.records[0].severity, str(broken.folder / DATABASE_NAME) in broken.records[0].body) == (
        "ERROR",
        True,
    )
    assert tables.query("select * from users").rows == []
    (broken.folder / DATABASE_NAME).unlink()
    assert broken.query("select 1 as a").rows == [{"a": 1}]


def damage(tables: Tables) -> None:
    """Fill the project's table, and overwrite pages in the middle of the file."""
    owner = tables.owner()
    owner.execute(
        "insert into users (name) with recursive n(i) as (select 1 union all select i+1 from n where i<5000)"
        " select 'user ' || i from n"
    )
    owner.execute("pragma wal_checkpoint(truncate)")
    owner.close()
    content = bytearray((tables.folder / DATABASE_NAME).read_bytes())
    content[4096 * 3 : 4096 * 20] = b"\xee" * (4096 * 17)
    (tables.folder / DATABASE_NAME).write_bytes(content)


def test_damaged_pages_are_reported_and_affect_one_project(tables: Tables, open_tables: Open) -> None:
    damage(tables)
    before = (tables.folder / DATABASE_NAME).read_bytes()
    answer = tables.query("select count(*) as n, max(name) as m from users")
    assert (answer.status, answer.code) == (500, "storage-damaged")
    answer = tables.exec("update users set age = 1")
    assert (answer.status, answer.code) == (500, "storage-damaged")
    assert (tables.folder / DATABASE_NAME).read_bytes() == before
    assert open_tables("other").query("select 1 as a").rows == [{"a": 1}]
    (tables.folder / DATABASE_NAME).rename(tables.folder / "aside.db")
    tables.schema("create table users (name text)")
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]


def test_size_limit_refuses_writes_and_preserves_rows(
    open_tables: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.sqlite.connections.MAX_BYTES", 1 << 20)
    tables = open_tables("small")
    tables.schema("create table t (id integer primary key, a text)")
    acknowledged = 0
    for _ in range(100):
        answer = tables.exec("insert into t (a) values ($1)", "x" * 50_000)
        if answer.status != 200:
            break
        acknowledged += 1
    assert (answer.status, answer.code) == (507, "storage-full")
    assert 5 < acknowledged < 30
    assert tables.query("select count(*) as n from t").rows == [{"n": acknowledged}]
    assert tables.exec("delete from t").document["changes"] == acknowledged
    assert tables.exec("insert into t (a) values ('y')").status == 200


def test_storage_quota_refuses_writes_of_guests_and_owners(open_tables: Open) -> None:
    tables = open_tables("tables")
    tables.schema("create table t (id integer primary key, a text)")
    tables.query("select 1 as warm")

    async def limit(mebibytes: int | None) -> None:
        tables.opened.limit(Quota(storage_mb=mebibytes))

    def fill() -> Answer:
        for _ in range(60):
            answer = tables.exec("insert into t (a) values ($1)", "x" * 50_000)
            if answer.status != 200:
                break
        return answer

    tables.run(limit(1))
    answer = fill()
    assert (answer.status, answer.code) == (507, "storage-quota")
    assert (
        "the project's quota of 1 MiB" in answer.text and "svc quota set PROJECT --storage MIB" in answer.text
    )
    (event,) = (entry for entry in tables.records if entry.grant is not None)
    assert event.grant == Grant("quota", change_command(tables.folder.name, "storage"))
    assert str(tables.folder) not in event.body
    with pytest.raises(TablesError) as exc_info, open_for_writing(tables.folder.parent) as connection:
        connection.execute("insert into t (a) values (hex(zeroblob(500000)))")
    assert exc_info.value.code == "storage-quota" and "quota of 1 MiB" in exc_info.value.message
    tables.run(limit(2))
    assert tables.exec("insert into t (a) values ($1)", "x" * 50_000).status == 200
    tables.run(limit(None))
    assert fill().status == 200
    tables.run(limit(1))  # The file is larger already.
    assert tables.exec("insert into t (a) values ($1)", "x" * 50_000).code == "storage-quota"
    assert tables.exec("delete from t").status == 200
    assert tables.exec("insert into t (a) values ('y')").status == 200


def test_write_over_size_limit_does_not_undo_concurrent_writes(
    open_tables: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.sqlite.connections.MAX_BYTES", 1 << 20)
    tables = open_tables("small")
    tables.schema("create table t (id integer primary key, a text)")
    tables.query("select 1 as warm")
    much = "insert into t (a) select hex(zeroblob(200000)) from json_each('[1,2,3,4,5]')"

    async def together() -> list[int]:
        sqls = ["insert into t (a) values ('a')", much, "insert into t (a) values ('b')"]
        return [each.status for each in await asyncio.gather(*map(tables.exec_async, sqls))]

    assert tables.run(together()) == [200, 507, 200]
    assert [row["a"] for row in tables.query("select a from t order by id").rows] == ["a", "b"]


def test_file_in_place_of_folder_is_storage_error(open_tables: Open) -> None:
    tables = open_tables("blocked")
    tables.folder.rmdir()
    tables.folder.write_text("a file is in the way")
    answer = tables.query("select 1 as a")
    assert (answer.status, answer.code) == (500, "storage")
    assert str(tables.folder) not in answer.text
    tables.folder.unlink()
    assert tables.query("select 1 as a").rows == [{"a": 1}]


def test_open_projects_are_limited_and_reopened_on_request(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.door.MAX_OPEN", 4)
    door = TablesDoor()
    projects = [Tables(tmp_path / f"p{number}", loop, door) for number in range(12)]
    for tables in projects:
        tables.folder.mkdir()
        tables.schema("create table t (a)")
    for turn in range(3):
        for number, tables in enumerate(projects):
            tables.exec("insert into t values ($1)", number)
            assert tables.query("select count(*) as n, max(a) as a from t").rows == [
                {"n": turn + 1, "a": number}
            ]
            assert sum(each.opened.idle for each in projects) <= 4
    for tables in projects:
        tables.close()


def test_projects_wait_for_others_when_the_limit_of_open_files_is_near(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.door.share_of_files", lambda files: 2)
    door = TablesDoor()
    projects = [Tables(tmp_path / f"p{number}", loop, door) for number in range(20)]
    insert = json.dumps({"sql": "insert into t values (1)"}).encode()
    most = 0

    async def write(tables: Tables) -> int:
        nonlocal most
        status = (await tables.send_async("/v1/exec", insert)).status
        most = max(most, sum(each.opened._database is not None for each in projects))
        return status

    async def together() -> list[int]:
        return await asyncio.gather(*map(write, projects))

    for tables in projects:
        tables.folder.mkdir()
        tables.schema("create table t (a)")
    assert loop.run_until_complete(together()) == [200] * 20
    assert most <= 2
    for tables in projects:
        tables.close()


def test_least_recently_used_project_is_closed_first(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.door.MAX_OPEN", 2)
    door = TablesDoor()
    first, second, third = (Tables(tmp_path / name, loop, door) for name in ("a", "b", "c"))
    first.query("select 1 as a")
    second.query("select 1 as a")
    first.query("select 1 as a")
    third.query("select 1 as a")
    assert [each.opened.idle for each in (first, second, third)] == [True, False, True]
    for tables in (first, second, third):
        tables.close()


def test_project_without_requests_for_a_while_is_closed(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.door.IDLE_SECONDS", 0.05)
    door = TablesDoor()
    used, idle = (Tables(tmp_path / name, loop, door) for name in ("used", "idle"))
    idle.query("select 1 as a")
    used.query("select 1 as a")

    async def use() -> None:
        while idle.opened.idle:
            used.opened.last_used = door.clock
            await asyncio.sleep(0.01)

    loop.run_until_complete(asyncio.wait_for(use(), 60))
    assert used.opened.idle
    assert idle.query("select 1 as a").rows == [{"a": 1}]
    for tables in (used, idle):
        tables.close()


def crashed(tables: Tables, name: str, damage: Callable[[bytes], bytes]) -> None:
    """Copy the open files of a project, as a kill leaves them, with a damaged write-ahead log."""
    target = tables.folder.with_name(name)
    shutil.copytree(tables.folder, target)
    (target / f"{DATABASE_NAME}-shm").unlink()
    log = target / f"{DATABASE_NAME}-wal"
    log.write_bytes(damage(log.read_bytes()))


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_transactions_after_damage_in_the_log_are_reported(tables: Tables, open_tables: Open) -> None:
    for number in range(10):
        tables.exec("insert into users (name) values ($1)", f"u{number}")
    for name, damage in {
        "whole": lambda data: data,
        "torn": lambda data: data[:-1],
        "page": lambda data: flip(data, len(data) // 2),
        "header": lambda data: flip(data, 20),
    }.items():
        crashed(tables, name, damage)
        copy = open_tables(name)
        reports = [record.body for record in copy.records]  # Whichever connection is the first.
        stored = copy.query("select count(*) as n from sqlite_schema where name = 'users'").rows[0]["n"]
        rows = copy.query("select count(*) as n from users").rows[0]["n"] if stored else 0
        if name in ("whole", "torn"):
            assert reports == [] and rows == (10 if name == "whole" else 9)
        else:
            assert len(reports) == 1 and "are lost" in reports[0] and rows < 10
            if stored:
                assert f"{10 - rows} committed transactions" in reports[0]
        copy.query("select 1 as a")
        assert len(copy.records) == len(reports)
