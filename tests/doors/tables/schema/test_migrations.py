import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from doors.tables import migrations
from doors.tables.files.importer import load
from doors.tables.migrations import Migration, applied, apply, find, pending, script
from doors.tables.schema import change as schema
from doors.tables.schema.change import CreateTable, SetNote
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar, transaction
from doors.tables.sqlite.tokens import ParsedStatement


def write(project: Path, **files: str | bytes) -> tuple[Migration, ...]:
    folder = project / "tables"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name.lstrip('_')}.sql").write_bytes(data)
    return find(project)


def refusal(database: Connection, *migrations: Migration) -> str:
    before = rows(database, "select type, name, sql from sqlite_schema order by name")
    with pytest.raises(TablesError) as exc_info:
        apply(database, migrations)
    assert rows(database, "select type, name, sql from sqlite_schema order by name") == before
    return f"{exc_info.value.message}\n{exc_info.value.hint}"


def migration(sql: str, name: str = "tables/1.sql") -> Migration:
    return Migration(name, sql)


def test_migrations_apply_once_in_name_order(database: Connection, tmp_path: Path) -> None:
    files = write(
        tmp_path,
        _0002="insert into users (name) values ('ada');",
        _0001="-- users\ncreate table users (id integer primary key, name text);",
    )
    assert apply(database, files) == ("tables/0001.sql", "tables/0002.sql")
    assert apply(database, find(tmp_path)) == ()
    files = write(tmp_path, _0003="insert into users (name) values ('bob')")
    assert [each.name for each in pending(database, files)] == ["tables/0003.sql"]
    assert apply(database, files) == ("tables/0003.sql",)
    assert rows(database, "select name from users order by id") == [("ada",), ("bob",)]
    assert list(applied(database)) == ["tables/0001.sql", "tables/0002.sql", "tables/0003.sql"]
    assert list(read(database)) == ["users"]


def test_no_migrations_create_no_migrations_table(database: Connection, tmp_path: Path) -> None:
    assert apply(database, find(tmp_path)) == ()
    assert rows(database, "select * from sqlite_schema") == []


def test_line_ending_change_is_not_an_edit(database: Connection, tmp_path: Path) -> None:
    apply(database, write(tmp_path, a=b"create table t (\n a);\n"))
    assert apply(database, write(tmp_path, a=b"\xef\xbb\xbfcreate table t (\r\n a);\r\n")) == ()


def test_edited_migration_is_refused_with_hint(database: Connection, tmp_path: Path) -> None:
    apply(database, write(tmp_path, a="create table t (a)", b="create table u (a)"))
    text = refusal(database, *write(tmp_path, a="create table t (a, b)", c="create table v (a)"))
    assert "tables/a.sql was edited after it was applied" in text
    assert "after tables/b.sql" in text


def test_file_that_is_still_empty_is_applied_once_it_has_statements(
    database: Connection, tmp_path: Path
) -> None:
    assert apply(database, write(tmp_path, a="create table t (a)", b="\n")) == ("tables/a.sql",)
    assert apply(database, write(tmp_path, b="create table u (a)")) == ("tables/b.sql",)


def test_migration_named_before_applied_one_is_refused(database: Connection, tmp_path: Path) -> None:
    apply(database, write(tmp_path, b="create table t (a)"))
    assert "tables/a.sql sorts before tables/b.sql" in refusal(
        database, *write(tmp_path, a="create table u (a)")
    )


def test_deleted_applied_migration_is_ignored(database: Connection, tmp_path: Path) -> None:
    apply(database, write(tmp_path, a="create table t (a)", b="create table u (a)"))
    (tmp_path / "tables" / "b.sql").unlink()
    assert apply(database, find(tmp_path)) == ()


def test_file_that_is_no_migration_by_its_name_is_warned_of(tmp_path: Path) -> None:
    write(tmp_path, a="create table t (a)")
    (tmp_path / "tables" / "sub").mkdir()
    for name in ("0002.SQL", "sub/0003.sql", "notes.txt", ".0004.sql"):
        (tmp_path / "tables" / name).write_text("create table u (a)")
    warnings: list[str] = []
    migrations.migrate(tmp_path, tmp_path / "data", lambda warning: warnings.append(str(warning)))
    assert warnings == ["tables/0002.SQL is not applied", "tables/sub/0003.sql is not applied"]


def test_failed_migration_rolls_back_all_files_and_names_line(database: Connection) -> None:
    good = migration("create table t (a text); insert into t values (1);")
    bad = migration(
        "create table u (a);\n\ninsert into u values (1);\nselect a,\n  nope\nfrom u;", "tables/2.sql"
    )
    assert "tables/2.sql:5: no such column: nope" in refusal(database, good, bad)
    assert applied(database) == {}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("create tabl t (a)", 'tables/1.sql:1: near "tabl": syntax error'),
        ("create table t (a", "tables/1.sql:1: incomplete input"),
        ("create table t (a);\ncreate table T (a)", "tables/1.sql:2: table T already exists"),
        ("create table t (a not null);\ninsert into t values (null)", "tables/1.sql:2: NOT NULL constraint"),
        ("select 'never closed;\n", "tables/1.sql:1:"),
        ("select 1;\n\nselect '\n\0'", "tables/1.sql:4: the SQL has a NUL character"),
        ("create table t (a);\nrollback;", "tables/1.sql:2: the statement begins or ends a transaction"),
        ("savepoint a", "begins or ends a transaction"),
        ("pragma writable_schema = on", "import the database file itself"),
        ("insert into sqlite_schema values ('table', 'a', 'a', 0, '')", "import the database file itself"),
        (
            "create table t (a); create table u (a); create view v as select a from t; drop table t;"
            " alter table u rename to t",
            "Drop the view before the change, and create it again after it",
        ),
        ("attach '/tmp/x.db' as x", "attaches another file"),
        ("vacuum into '/tmp/x.db'", "tables/1.sql:1:"),
        ("vacuum", "tables/1.sql:1:"),
        ("select load_extension('x')", "tables/1.sql:1:"),
        ("create temp table t (a)", "creates a temporary object"),
        ("create table _svc_x (a)", "uses _svc_x"),
        ('create table "_SVC_x" (a)', "uses _SVC_x"),
        ("drop table _svc_migrations", "uses _svc_migrations"),
        ("delete from _svc_migrations", "uses _svc_migrations"),
        ("create table t (a); create index _svc_i on t(a)", "uses _svc_i"),
        ("create table t (a); alter table t rename to _svc_t", "the table _svc_t has a reserved name"),
        ("create table sqlite_x (a)", "reserved"),
        ("create virtual table t using dbstat", "uses the module dbstat"),
        ("update sqlite_schema set sql = ''", "tables/1.sql:1:"),
        ("create view v as select * from nowhere", "leaves something broken"),
        ("create table t (a); create trigger r after insert on t begin delete from nowhere; end", "broken"),
        (
            "create table p (a primary key); create table c (a references p); insert into c values (1)",
            "refer",
        ),
    ],
)
def test_forbidden_migration_sql_is_refused(database: Connection, sql: str, message: str) -> None:
    assert message in refusal(database, migration(sql))
    assert rows(database, "select 1") == [(1,)]


FRAMES = """
    PRAGMA foreign_keys=OFF;--> statement-breakpoint
    pragma defer_foreign_keys=TRUE; Pragma main . foreign_keys = 0; PRAGMA foreign_keys(off);
    BEGIN /* all */ IMMEDIATE TRANSACTION;
    create table {0} (a);
    PRAGMA foreign_key_check("{0}"); COMMIT TRANSACTION; begin deferred; end transaction; begin; end;
    PRAGMA foreign_keys = on;
"""
"""Statements of dumps and migrations of SQLite's shell, D1, Drizzle, Prisma and SQLiteStudio."""


def test_statements_about_transactions_and_foreign_keys_are_skipped(database: Connection) -> None:
    apply(database, [migration(FRAMES.format("migrated"))])
    list(load(database, io.BytesIO(FRAMES.format("imported").encode()), "sql"))
    assert {"migrated", "imported"} <= set(read(database))


def test_migrations_support_fts_triggers_views_and_ctes(database: Connection) -> None:
    apply(
        database,
        [
            migration(
                """
                create table posts (id integer primary key, body text not null, at timestamp default (now()));
                create virtual table found using fts5(body, content='posts', content_rowid='id');
                create trigger index_posts after insert on posts begin
                  insert into found(rowid, body) values (new.id, new.body);
                  select case when new.body = ';' then raise(abort, 'no; end;') end;
                end;
                insert into posts (body) values ('hello; world'), ('it''s');
                create view short as select substr(body, 1, 3) as word from posts;
                with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000)
                  insert into posts (body) select 'n' || x from n;
                create table copy as select * from posts; -- the end
                """
            )
        ],
    )
    assert scalar(database, "select count(*) from copy") == 1002
    assert rows(database, "select rowid from found where found match 'world'") == [(1,)]
    tables = read(database)
    assert {name: table.kind for name, table in tables.items()} == {
        "copy": "table",
        "found": "virtual",
        "posts": "table",
        "short": "view",
    }
    assert [column.type for column in tables["posts"].columns] == ["integer", "text", "timestamp"]


@pytest.mark.parametrize(
    ("declared", "type"),
    [
        ("", "text"),
        ("any", "text"),
        ("BOOLEAN", "boolean"),
        ("timestamptz", "timestamp"),
        ("datetime", "timestamp"),
        ("date", "date"),
        ("jsonb", "json"),
        ("bigint", "integer"),
        ("varchar(20)", "text"),
        ("character varying (20)", "text"),
        ("double precision", "real"),
        ("decimal(10, 2)", "real"),
        ("bytea", "blob"),
        ("integer check (x in (0, 1))", "boolean"),
        ("text not null check (json_valid( [X] ))", "json"),
        ("text constraint c check (x is strftime('%Y-%m-%dT%H:%M:%fZ', x))", "timestamp"),
        ("text check (x <> '')", "text"),
    ],
)
def test_declared_type_maps_to_logical_type(database: Connection, declared: str, type: str) -> None:
    apply(database, [migration(f"create table t (x {declared})")])
    assert read(database)["t"].columns[0].type == type


def test_notes_and_types_follow_migration_renames(database: Connection) -> None:
    columns = (Column("a", "integer"), Column("at", "timestamp", note="when"))
    schema.apply(database, [CreateTable("t", columns, note="all"), SetNote("t", "a", "first")])
    apply(database, [migration('alter table t rename column at to "made at"; alter table t rename to u')])
    apply(
        database, [migration("alter table u add column b text; alter table u drop column a", "tables/2.sql")]
    )
    table = read(database)["u"]
    assert table.note == "all"
    assert [(each.name, each.type, each.note) for each in table.columns] == [
        ("made at", "timestamp", "when"),
        ("b", "text", ""),
    ]
    assert scalar(database, "select count(*) from _svc_notes") == 2


@pytest.mark.parametrize(
    ("data", "message"), [(b"create table t (a);\n-- caf\xe9\n", "tables/a.sql:2: the file is not UTF-8")]
)
def test_non_utf_8_migration_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(TablesError) as exc_info:
        write(tmp_path, a=data)
    assert message in exc_info.value.message


def test_folder_named_like_migration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tables" / "x.sql").mkdir(parents=True)
    with pytest.raises(TablesError, match=r"tables/x\.sql is not a file"):
        find(tmp_path)


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tables").touch()
    with pytest.raises(TablesError, match="tables cannot be read as a folder: Not a directory"):
        find(tmp_path)


def test_pipe_named_like_migration_is_refused_without_blocking(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    os.mkfifo(tmp_path / "tables" / "x.sql")
    with pytest.raises(TablesError, match=r"tables/x\.sql is not a file"):
        find(tmp_path)


def test_endless_migration_statement_times_out_and_is_rolled_back(database: Connection) -> None:
    endless = "with recursive a(x) as (select 1 union all select x + 1 from a) select count(*) from a"
    with pytest.raises(TablesError) as exc_info, transaction(database, "nothing happened"):
        script.run(database, "tables/1.sql", [ParsedStatement(1, "create table t (a)")])
        slow = [ParsedStatement(2, f"create table u as {endless}")]
        script.run(database, "tables/1.sql", slow, seconds=0.05)
    assert exc_info.value.message == "tables/1.sql:2: the statement took longer than 0 s"
    assert exc_info.value.code == "timeout"
    assert list(read(database)) == []
    counted = endless.replace("from a)", "from a limit 100000)")
    assert scalar(database, counted) == 100_000  # the next statement has no time limit


def test_values_of_slow_functions_are_limited(database: Connection) -> None:
    def patch(size: int) -> Migration:
        return migration(f"create table t as select json_patch('[]', json_quote(hex(zeroblob({size})))) as a")

    assert "string or blob too big" in refusal(database, patch(100_000))
    apply(database, [patch(10_000)])


def test_concurrent_applies_run_each_migration_once(database: Connection, tmp_path: Path) -> None:
    files = [
        migration("create table t (a); insert into t values (1)"),
        migration("insert into t values (2)", "tables/2.sql"),
    ]

    def other(_: int) -> tuple[str, ...]:
        connection = open_owner(tmp_path / "tables.db")
        try:
            return apply(connection, files)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(other, range(4)))
    assert sorted(result, key=len) == [(), (), (), ("tables/1.sql", "tables/2.sql")]
    assert rows(database, "select a from t") == [(1,), (2,)]


def test_migrations_have_one_time_limit_together(
    database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MAX_SECONDS", 0.3)
    numbers = "with recursive a(x) as (select 1 union all select x + 1 from a)"
    slow = f"{numbers} select x from a limit 1 offset 300000;"
    files = [Migration(f"tables/{number}.sql", slow) for number in range(1000)]
    began = time.monotonic()
    with pytest.raises(TablesError) as exc_info:
        apply(database, files)
    assert (exc_info.value.code, time.monotonic() - began < 10) == ("timeout", True)
    assert list(read(database)) == []
