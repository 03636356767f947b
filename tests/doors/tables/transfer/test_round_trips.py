import io
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.files.exporter import save
from doors.tables.files.format import FORMATS, Format
from doors.tables.files.importer import load
from doors.tables.guest.session import never
from doors.tables.migrations import Migration
from doors.tables.migrations import apply as migrate
from doors.tables.schema.change import CreateIndex, CreateTable, apply
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar

THINGS = CreateTable(
    "all things",
    (
        Column("id", "integer", primary_key=True),
        Column("n", "integer"),
        Column("r", "real"),
        Column('t "x", y', "text", note="a note"),
        Column("b", "boolean", default="true"),
        Column("at", "timestamp", default="now()"),
        Column("j", "json"),
        Column("raw", "blob"),
    ),
    note="everything",
)
ROWS = [
    (1, None, None, None, None, None, None, None),
    (2, 2**63 - 1, 1.5, "", 1, "0000-01-01T00:00:00.000Z", "{}", b""),
    (
        3,
        -(2**63),
        float("inf"),
        '"',
        0,
        "9999-12-31T23:59:59.999Z",
        '{"a": [1.00, 1e5, 12345678901234567890]}',
        b"\0",
    ),
    (4, 0, float("-inf"), "a,b;c\td\r\ne\n", 1, "2024-02-29T12:00:00.001Z", '"\\u00e9 é"', b"\xff\xfe"),
    (5, 1, 1e300, " \0 NULL \ufeff", 0, None, "null", b"x" * 1000),
    (6, 2, 5e-324, "é 名前 😀 \u2028", 0, None, '{"d":1,"d":2}', b"\n"),
    (7, 3, 0.1 + 0.2, "null", 0, None, "  [ ]\n", b"\r"),
    (8, 4, -0.0, "1.10", 0, None, "true", b"'"),
    (9, 5, 1e16, "it's; --\n", 0, None, '"a\\" \\\\ b"', None),
    (-7, 6, 3.0, "x" * 100_000, 0, None, "1", None),
]


@pytest.fixture
def things(database: Connection) -> Connection:
    apply(database, [THINGS])
    database.executemany('insert into "all things" values (?, ?, ?, ?, ?, ?, ?, ?)', ROWS)
    return database


def exported(database: Connection, format: Format, *tables: str) -> bytes:
    return b"".join(save(database, never, format, tables))


def imported(path: Path, data: bytes, format: Format, table: str = "", *tables: CreateTable) -> Connection:
    other = open_owner(path)
    if tables:
        apply(other, tables)
    for progress in load(other, io.BytesIO(data), format, table=table):
        assert progress.skipped == ()
    return other


@pytest.mark.parametrize("format", ["csv", "json", "jsonl"])
def test_row_formats_round_trip_byte_for_byte(things: Connection, tmp_path: Path, format: Format) -> None:
    first = exported(things, format, "all things")
    other = imported(tmp_path / "other.db", first, format, "all things", THINGS)
    assert exported(other, format, "all things") == first
    stored = 'select id, n, r, "t ""x"", y", b, at, raw from "all things" order by id'
    assert rows(other, stored) == rows(things, stored)
    same_json = 'select id, json(j) from "all things" where id <> 5 order by id'
    assert rows(other, same_json) == rows(things, same_json)
    other.close()


@pytest.mark.parametrize("format", ["sql", "db"])
def test_whole_table_formats_round_trip_byte_for_byte(
    things: Connection, tmp_path: Path, format: Format
) -> None:
    apply(things, [CreateIndex("all things", ("n", "b"), unique=True)])
    migrate(
        things,
        [
            Migration(
                "tables/1.sql",
                """
                create table "odd ;" (rowid any, word varchar(9) collate nocase default ';',
                  size generated always as (length(word)) stored); -- why
                insert into "odd ;" (oid, rowid, word) values (40, '5', 'b'), (7, 5, x'00ff'), (9, 2.0, 'a');
                create table keyed (b, a, primary key (a desc, b)) without rowid;
                insert into keyed values (1, 2), (2, 1), ('1', 2);
                create table counted (id integer primary key autoincrement, up references counted(id));
                insert into counted values (5, null), (6, 5); delete from counted where id = 6;
                create table empty (a);
                create view seen as select word from "odd ;" where word <> ';';
                create trigger t after delete on keyed begin insert into empty values (';'); end;
                create index partly on "odd ;"(word desc) where rowid is not null;
                create virtual table inner using fts5(body);
                insert into inner (rowid, body) values (4, 'hello world');
                create virtual table outer using fts5(word, content='odd ;', content_rowid='oid');
                """,
            )
        ],
    )
    first = exported(things, format)
    other = imported(tmp_path / "other.db", first, format)
    assert exported(other, format) == first
    assert dict(read(other)) == dict(read(things))
    for query in [
        'select * from "all things" order by id',
        'select rowid, word, size, typeof(rowid) from "odd ;" order by oid',
        "select * from keyed",
        "select * from seen",
        "select * from _svc_migrations",
        "select rowid from inner where inner match 'world'",
    ]:
        assert rows(other, query) == rows(things, query)
    other.execute("insert into counted (up) values (5)")
    assert scalar(other, "select max(id) from counted") == 7
    if format == "db":
        assert rows(other, 'select oid from "odd ;" order by oid') == [(7,), (9,), (40,)]
    other.close()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "column", ["at datetime", "at timestamp default current_timestamp", "at date", "n integer", "t text"]
)
def test_texts_of_a_table_without_strict_round_trip(
    database: Connection, tmp_path: Path, format: Format, column: str
) -> None:
    texts = ["2026-01-31 10:00:00", "2026-01-31", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00+02:00", " x "]
    sql = f"create table t ({column})"
    database.execute(sql)
    database.executemany("insert into t values (?)", [(each,) for each in [*texts, None, 1769853600, 2.5]])
    with closing(open_owner(tmp_path / "other.db")) as other:
        if format in ("csv", "json", "jsonl"):
            other.execute(sql)
        first = exported(database, format, "t")
        list(load(other, io.BytesIO(first), format, table="" if format in ("sql", "db") else "t"))
        query = "select *, typeof(at) from t".replace("at", column.split()[0])
        assert rows(other, query) == rows(database, query)
        assert exported(other, format, "t") == first
        if format == "csv":
            assert first.decode().splitlines()[1:5] == texts[:4]


@pytest.mark.parametrize("value", ["true", "[1]", "{}"])
def test_json_value_that_is_no_timestamp_is_refused_without_strict(database: Connection, value: str) -> None:
    database.execute("create table t (at datetime)")
    with pytest.raises(TablesError, match="in column at"):
        list(load(database, io.BytesIO(b'[{"at": %b}]' % value.encode()), "json", table="t"))


def test_sql_dump_loads_in_plain_sqlite(things: Connection, tmp_path: Path) -> None:
    plain = Connection(":memory:")
    plain.execute(exported(things, "sql").decode())
    query = 'select * from "all things" order by id'
    assert rows(plain, query) == rows(things, query)


def test_exported_database_opens_in_plain_sqlite(things: Connection, tmp_path: Path) -> None:
    (tmp_path / "plain.db").write_bytes(exported(things, "db"))
    plain = Connection(str(tmp_path / "plain.db"))
    query = 'select * from "all things" order by id'
    assert rows(plain, query) == rows(things, query)
    assert rows(plain, "pragma integrity_check") == [("ok",)]
    assert scalar(plain, "pragma freelist_count") == 0


def test_values_of_other_type_round_trip(database: Connection, tmp_path: Path) -> None:
    sql = "create table loose (i integer, r decimal, b boolean, at datetime, j json, x blob, n, t text)"
    odd = [
        ("abc", "9007199254740993", 2, "2024-01-01 10:00:00", "not json", "text", 5, "1"),
        (1.5, 2**60 + 1, "perhaps", 1700000000, 7, "abcd", "5", "x"),
        (b"\xff", "1e400", 1, "soon", "[1]", b"\x01", 1.5, b"\x02"),
    ]
    database.execute(sql)
    database.executemany("insert into loose values (?, ?, ?, ?, ?, ?, ?, ?)", odd)
    for format in ("csv", "json", "jsonl"):
        first = exported(database, format, "loose")
        other = open_owner(tmp_path / f"{format}.db")
        other.execute(sql)
        list(load(other, io.BytesIO(first), format, table="loose"))
        assert exported(other, format, "loose") == first
        other.close()


def test_export_imports_into_new_table_with_inferred_types(things: Connection, tmp_path: Path) -> None:
    for format in ("csv", "json", "jsonl"):
        first = exported(things, format, "all things")
        list(load(things, io.BytesIO(first), format, table=f"copy of {format}"))
        copy = read(things)[f"copy of {format}"]
        assert [column.type for column in copy.columns][:3] == ["integer", "integer", "real"]
        assert [column.type for column in copy.columns][4:6] == ["boolean", "timestamp"]
        assert scalar(things, f'select count(*) from "copy of {format}"') == len(ROWS)


def test_export_formats_match_documentation(database: Connection) -> None:
    apply(database, [CreateTable("t", (Column("a", "text"), Column("b", "boolean"), Column("j", "json")))])
    database.execute("""insert into t values ('x', 1, '{"k": [1, 2]}'), ('', null, null)""")
    assert exported(database, "csv", "t") == b'a,b,j\nx,true,"{""k"": [1, 2]}"\n"",,\n'
    assert exported(database, "json", "T") == (
        b'[\n{"a":"x","b":true,"j":{"k":[1,2]}},\n{"a":"","b":null,"j":null}\n]\n'
    )
    assert (
        exported(database, "jsonl", "t")
        == b'{"a":"x","b":true,"j":{"k":[1,2]}}\n{"a":"","b":null,"j":null}\n'
    )
    assert exported(database, "sql", "t") == (
        b"-- Tables of a svc project, as SQL.\nPRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
        b'CREATE TABLE "t" (\n  "a" TEXT,\n  "b" INTEGER CHECK ("b" IN (0, 1)),\n'
        b'  "j" TEXT CHECK (json_valid("j"))\n) STRICT;\n'
        b"""INSERT INTO "t" ("a", "b", "j") VALUES ('x', 1, '{"k": [1, 2]}');\n"""
        b"""INSERT INTO "t" ("a", "b", "j") VALUES ('', NULL, NULL);\nCOMMIT;\n"""
    )
    database.execute("delete from t")
    assert exported(database, "json", "t") == b"[\n]\n"
    assert exported(database, "jsonl", "t") == b""
