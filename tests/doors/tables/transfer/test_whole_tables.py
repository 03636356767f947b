import io
from pathlib import Path

import pytest

from doors.tables.files.copy_tables import contents_of
from doors.tables.files.exporter import save
from doors.tables.files.format import Format
from doors.tables.files.importer import load
from doors.tables.guest.session import never
from doors.tables.migrations import Migration, applied
from doors.tables.migrations import apply as migrate
from doors.tables.schema.change import CreateTable, apply
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar


@pytest.fixture
def users(database: Connection) -> Connection:
    apply(
        database, [CreateTable("users", (Column("id", "integer", primary_key=True), Column("name", "text")))]
    )
    database.execute("insert into users values (1, 'ada')")
    return database


def database_file(path: Path, sql: str) -> bytes:
    connection = Connection(str(path))
    connection.execute(sql).fetchall()
    connection.close()
    return path.read_bytes()


def refused_import(database: Connection, data: str | bytes, format: Format, **how: object) -> str:
    before = dict(read(database)), rows(database, "select * from users")
    with pytest.raises(TablesError) as exc_info:
        raw = data if isinstance(data, bytes) else data.encode()
        list(load(database, io.BytesIO(raw), format, **how))  # type: ignore[arg-type]
    assert (dict(read(database)), rows(database, "select * from users")) == before
    return f"{exc_info.value.message}\n{exc_info.value.hint}"


@pytest.mark.parametrize("format", ["sql", "db"])
def test_existing_table_requires_replace(users: Connection, format: Format) -> None:
    output = io.BytesIO(b"".join(save(users, never, format)))
    users.execute("insert into users values (2, 'bob')")
    assert "table users already exists" in refused_import(users, output.getvalue(), format)
    list(load(users, output, format, replace=True))
    assert rows(users, "select * from users") == [(1, "ada")]


@pytest.mark.parametrize("format", ["sql", "db"])
def test_one_table_of_a_file_is_imported(users: Connection, format: Format) -> None:
    users.execute("create table others (id integer primary key)")
    users.execute("create index by_name on users (name)")
    data = b"".join(save(users, never, format))
    users.execute("delete from users")
    users.execute("insert into others values (7)")
    list(load(users, io.BytesIO(data), format, table="users", replace=True))
    assert rows(users, "select * from users") == [(1, "ada")]
    assert scalar(users, "select count(*) from sqlite_schema where name = 'by_name'") == 1
    assert rows(users, "select id from others") == [(7,)]
    assert "table nothing does not exist" in refused_import(users, data, format, table="nothing")


def test_dump_of_sqlite3_shell_is_imported(users: Connection) -> None:
    dump = (
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
        "CREATE TABLE a(id integer primary key autoincrement, b references a(id));\n"
        "INSERT INTO a VALUES(1,2);\nINSERT INTO a VALUES(2,NULL);\n"
        "CREATE TABLE IF NOT EXISTS \"b c\"(x TEXT DEFAULT 'a;b');\n"
        "INSERT INTO \"b c\" VALUES(replace('a\\nb','\\n',char(10)));\n"
        "DELETE FROM sqlite_sequence;\nINSERT INTO sqlite_sequence VALUES('a',9);\n"
        "CREATE INDEX i on a(b);\nCOMMIT;\n"
    )
    *_, last = load(users, io.BytesIO(dump.encode()), "sql")
    assert last.rows == 3
    assert rows(users, 'select x from "b c"') == [("a\nb",)]
    users.execute("insert into a (b) values (1)")
    assert scalar(users, "select max(id) from a") == 10


@pytest.mark.parametrize(
    ("dump", "message"),
    [
        ("", "the file has no tables"),
        ("create table a (b);\ninsert into a values (1, 2);", "line 2: table a has 1 columns but 2 values"),
        ("create table a (b);\nrollback;", "line 2: the statement begins or ends a transaction"),
        ("create table a (b); attach 'x' as y;", "attaches another file"),
        ("create table a (b); pragma writable_schema=on;", "has a PRAGMA"),
        ("create table a (b); insert into users values (3, 'x');", "no such table: users"),
        ("create table _svc_a (b);", "uses _svc_a"),
        ("create table a (b);\ninsert into a values ('never closed);", "line 2:"),
        (
            "create table a (b references users(id)); insert into a values (77);",
            "would refer to a missing row",
        ),
        ("create table users (x); drop table users; create table a (b primary key, b)", "duplicate column"),
        ("create table a (b); insert into a values (zeroblob(2000000))", "has a value of 2000000"),
        (b"create table a (b);\n\xff", "line 2: the byte 0xff is not UTF-8"),
        (
            "create table a (b); create trigger r after insert on a begin insert into no_a values (1); end",
            "no_a",
        ),
        ("\0", "line 1:"),
    ],
    ids=range(14),
)
def test_invalid_dump_leaves_nothing(users: Connection, dump: str | bytes, message: str) -> None:
    assert message in refused_import(users, dump, "sql")


def test_dump_cannot_change_existing_tables(users: Connection) -> None:
    dump = "create table users (x); insert into users values (5); drop table users; create table a (b);"
    list(load(users, io.BytesIO(dump.encode()), "sql"))
    assert rows(users, "select * from users") == [(1, "ada")]


def test_empty_or_non_sqlite_file_is_refused(users: Connection) -> None:
    assert "the file has no tables" in refused_import(users, b"", "db")
    assert "damaged, or not an SQLite database" in refused_import(
        users, b"not a database, but long enough" * 100, "db"
    )


def test_damaged_database_is_refused(users: Connection, tmp_path: Path) -> None:
    sql = "create table a (b); create index i on a(b);"
    content = bytearray(database_file(tmp_path / "x.db", sql + "insert into a values ('x'), ('y');"))
    content[4096 * 2 - 20 : 4096 * 2] = b"\xff" * 20
    assert "damaged" in refused_import(users, bytes(content), "db")
    assert "damaged" in refused_import(users, bytes(content[:4096]), "db")


def test_foreign_database_import_accepts_safe_schema_only(users: Connection, tmp_path: Path) -> None:
    data = database_file(
        tmp_path / "x.db",
        """
        pragma encoding = 'UTF-16'; pragma page_size = 512; pragma journal_mode = wal;
        create table a (b boolean, c timestamp); insert into a values (1, 'é');
        create view v as select b from a;
        create trigger t after insert on a begin update a set b = 0; end;
        create table w (k text primary key, x) without rowid; insert into w values ('k', 1e400);
        """,
    )
    list(load(users, io.BytesIO(data), "db"))
    assert rows(users, "select b, c from a") == [(1, "é")]
    assert [column.type for column in read(users)["a"].columns] == ["boolean", "timestamp"]
    assert rows(users, "select * from v") == [(1,)]
    assert scalar(users, "pragma encoding") == "UTF-8"

    data = database_file(
        tmp_path / "y.db",
        "create table t (a); create trigger r after insert on t begin select load_extension('x'); end;",
    )
    assert "load_extension" in refused_import(users, data, "db")
    data = database_file(tmp_path / "z.db", "create table _svc_mine (a); create table ok (a)")
    list(load(users, io.BytesIO(data), "db"))
    assert [name for name in read(users) if name == "ok"] == ["ok"]
    assert scalar(users, "select count(*) from sqlite_schema where name = '_svc_mine'") == 0


def test_non_utf_8_text_is_refused(users: Connection, tmp_path: Path) -> None:
    data = database_file(tmp_path / "x.db", "create table a (b); insert into a values (cast(x'ff' as text))")
    assert "table a has a text that is not UTF-8" in refused_import(users, data, "db")
    users.execute("update users set name = cast(x'ff' as text)")
    for format in ("csv", "json", "jsonl", "sql", "db"):
        with pytest.raises(TablesError, match="not UTF-8"):
            list(save(users, never, format, ["users"]))
    users.execute("delete from users")


def test_database_with_forged_schema_is_refused(users: Connection, tmp_path: Path) -> None:
    database_file(tmp_path / "x.db", "create table a (b); create table c (d); insert into a values (1)")
    connection = Connection(str(tmp_path / "x.db"))
    connection.execute("pragma writable_schema = on")
    connection.execute("update sqlite_schema set rootpage = 2")
    connection.close()
    assert "damaged" in refused_import(users, (tmp_path / "x.db").read_bytes(), "db")


def test_applied_migrations_are_imported_if_target_has_none(users: Connection, tmp_path: Path) -> None:
    first = [Migration("tables/1.sql", "create table made (a)")]
    migrate(users, first)
    output = io.BytesIO(b"".join(save(users, never, "db")))
    other = open_owner(tmp_path / "other.db")
    list(load(other, output, "db"))
    assert migrate(other, first) == ()
    other.execute("drop table made; drop table users")
    migrate(other, [*first, Migration("tables/2.sql", "create table more (a)")])
    list(load(other, output, "db"))
    assert list(applied(other)) == ["tables/1.sql", "tables/2.sql"]
    other.close()


def test_export_of_one_table_includes_its_indexes_only(users: Connection, tmp_path: Path) -> None:
    users.execute("create table b (c); create index i on b(c); create view v as select * from users")
    for format in ("sql", "db"):
        output = io.BytesIO(b"".join(save(users, never, format, ["B"])))
        other = open_owner(tmp_path / f"{format}.db")
        list(load(other, output, format))
        assert rows(other, "select name from sqlite_schema order by name") == [("b",), ("i",)]
        other.close()


def test_contentless_full_text_index_is_skipped(users: Connection, tmp_path: Path) -> None:
    users.execute(
        "create virtual table f using fts5(a, content=''); insert into f (rowid, a) values (1, 'x')"
    )
    output = io.BytesIO(b"".join(save(users, never, "db")))
    assert contents_of(users).skipped == ("f",)
    other = open_owner(tmp_path / "other.db")
    *_, last = load(other, output, "db")
    assert last.skipped == ("f",)
    assert set(read(other)) == {"f", "users"}
    other.close()


@pytest.mark.parametrize("format", ["sql", "db"])
def test_full_text_index_of_a_missing_table_is_skipped(
    users: Connection, tmp_path: Path, format: Format
) -> None:
    users.execute("create virtual table f using fts5(name, content='gone')")
    users.execute("create virtual table g using fts5(nick, content='users')")
    output = io.BytesIO(b"".join(save(users, never, format)))
    assert contents_of(users).skipped == ("f", "g")
    other = open_owner(tmp_path / "other.db")
    list(load(other, output, format))
    assert set(read(other)) == {"users"}
    other.close()


def test_closed_database_import_leaves_nothing(users: Connection, tmp_path: Path) -> None:
    data = database_file(tmp_path / "x.db", "create table a (b); insert into a values (1)" + ", (1)" * 4999)
    progress_steps = load(users, io.BytesIO(data), "db")
    next(progress_steps)
    next(progress_steps)
    progress_steps.close()  # type: ignore[attr-defined]
    assert list(read(users)) == ["users"]


def test_export_reads_one_snapshot(users: Connection) -> None:
    users.executemany("insert into users (name) values (?)", [("x",)] * 3000)
    pieces = save(users, never, "jsonl", ["users"])
    first = next(pieces)
    other = Connection(users.filename)
    other.execute("delete from users where id > 10")
    other.close()
    assert (first + b"".join(pieces)).count(b"\n") == 3001
