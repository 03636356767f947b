import pytest

from doors.tables.schema.change import (
    AddColumn,
    CreateTable,
    RetypeColumn,
    SetDefault,
    SetNullable,
    SetPrimaryKey,
    SetUnique,
    apply,
)
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import Connection, ConstraintError, rows, scalar
from tests.doors.tables.schema.changes import refusal, table


@pytest.mark.parametrize(
    ("old", "value", "new", "becomes"),
    [
        ("text", "42", "integer", 42),
        ("text", "-9223372036854775808", "integer", -(2**63)),
        ("text", "1e3", "real", 1000.0),
        ("text", "Yes", "boolean", 1),
        ("text", "2026-01-02", "timestamp", "2026-01-02T00:00:00.000Z"),
        ("text", "2026-01-02 03:04:05.678000+02:00", "timestamp", "2026-01-02T01:04:05.678Z"),
        ("text", "1.10", "real", 1.1),
        ("text", '{"a": 1}', "json", '{"a": 1}'),
        ("text", "é\0", "blob", b"\xc3\xa9\0"),
        ("integer", 2**53, "real", float(2**53)),
        ("integer", 7, "text", "7"),
        ("integer", 1, "boolean", 1),
        ("integer", 7, "json", "7"),
        ("real", 3.0, "integer", 3),
        ("real", 0.1, "text", "0.1"),
        ("real", float("-inf"), "text", "-9e999"),
        ("boolean", 1, "text", "true"),
        ("boolean", 0, "json", "false"),
        ("timestamp", "2026-01-02T01:04:05.678Z", "text", "2026-01-02T01:04:05.678Z"),
        ("timestamp", "2026-01-02T01:04:05.678Z", "json", '"2026-01-02T01:04:05.678Z"'),
        ("json", "[1]", "text", "[1]"),
        ("blob", b"abc", "text", "abc"),
    ],
)
def test_retype_converts_values(
    database: Connection, old: str, value: object, new: str, becomes: object
) -> None:
    columns = (Column("id", "integer", primary_key=True), Column("v", old))  # type: ignore[arg-type]
    apply(database, [CreateTable("t", columns)])
    database.execute("insert into t values (4, ?), (6, null)", (value,))  # type: ignore[arg-type]
    apply(database, [RetypeColumn("t", "v", new)])  # type: ignore[arg-type]
    assert rows(database, "select * from t order by id") == [(4, becomes), (6, None)]
    assert table(database, "t").column("v").type == new


@pytest.mark.parametrize(
    ("old", "value", "new", "reason"),
    [
        ("text", "4.5", "integer", "is not a whole number"),
        ("text", "9223372036854775808", "integer", "is beyond 64 bits"),
        ("text", "1" * 6000, "integer", "beyond 64 bits"),
        ("text", "nan", "real", "is not a number"),
        ("text", "45e76582", "real", "is beyond the range of a real"),
        ("text", "0.123456789012345678", "real", "has more digits than a real can hold"),
        ("text", "2026-01-02T03:04:05.678901Z", "timestamp", "has digits beyond milliseconds"),
        ("json", "1e400", "real", "is beyond the range of a real"),
        ("text", "maybe", "boolean", "neither true nor false"),
        ("text", "tomorrow", "timestamp", "is not a timestamp"),
        ("text", "2026-02-30", "timestamp", "does not exist in the calendar"),
        ("text", "{", "json", "is not JSON"),
        ("text", "NaN", "json", "is not JSON"),
        ("integer", 2**53 + 1, "real", "more digits"),
        ("integer", 2, "boolean", "is neither true nor false"),
        ("integer", 1700000000, "timestamp", "is a number"),
        ("real", 0.5, "integer", "has a fraction"),
        ("real", 1e300, "integer", "beyond 64 bits"),
        ("real", float("inf"), "integer", "has a fraction"),
        ("blob", b"\xff", "text", "is not text in UTF-8"),
    ],
)
def test_retype_with_inconvertible_value_names_row(
    database: Connection, old: str, value: object, new: str, reason: str
) -> None:
    columns = (Column("id", "integer", primary_key=True), Column("v", old))  # type: ignore[arg-type]
    apply(database, [CreateTable("t", columns)])
    database.execute("insert into t values (4, null), (6, ?)", (value,))  # type: ignore[arg-type]
    text = refusal(database, RetypeColumn("t", "v", new))  # type: ignore[arg-type]
    assert "column v of table t" in text
    assert "the row with id = 6" in text
    assert reason in text
    assert "set it to null" in text
    assert scalar(database, "select v from t where id = 6") == value


def test_retyped_key_remains_primary_key(visits: Connection) -> None:
    apply(visits, [RetypeColumn("visits", "id", "text")])
    assert table(visits).key == ("id",)
    assert not table(visits).column("id").nullable
    assert rows(visits, "select id from visits order by id") == [("1",), ("5",), ("9",)]
    apply(visits, [RetypeColumn("visits", "id", "integer")])
    assert rows(visits, "select id, rowid from visits order by id") == [(1, 1), (5, 5), (9, 9)]


def test_retype_converts_default(visits: Connection) -> None:
    apply(visits, [RetypeColumn("visits", "paid", "text")])
    assert table(visits).column("paid").default == "'false'"
    apply(visits, [SetDefault("visits", "paid", "'perhaps'")])
    visits.execute("update visits set paid = 'true'")
    assert "the default of column paid does not fit" in refusal(
        visits, RetypeColumn("visits", "paid", "boolean")
    )


def test_rebuild_preserves_rowids_indexes_triggers_views_and_keys(database: Connection) -> None:
    database.execute(
        """
        create table parent (id integer primary key autoincrement,
          name text collate nocase check (parent.name <> ''),
          twice generated always as (id * 2), at datetime default current_timestamp, /* a note */
          up integer references parent(id) on delete cascade, unique (name, up));
        create table child (id integer references parent(id) on delete cascade, word);
        create table log (line text);
        create index i on parent(name, up) where up is not null;
        create trigger t after delete on parent begin insert into log values (old.name); end;
        create view v as select parent.name, twice from parent join child using (id);
        insert into parent (id, name, up) values (3, 'a', null), (7, 'b', 3), (90, 'z', null);
        delete from parent where id = 90; delete from log;
        insert into child (rowid, id, word) values (10, 3, 'x'), (30, 7, x'00ff');
        """
    )
    before = rows(database, "select rowid, * from parent"), rows(database, "select * from v")
    stored = rows(database, "select rowid, * from child")
    apply(
        database,
        [
            SetNullable("parent", "name", False),
            RetypeColumn("parent", "up", "real"),
            RetypeColumn("parent", "up", "integer"),
            SetDefault("child", "word", "'w'"),
            SetUnique("parent", "name", True),
        ],
    )
    assert (rows(database, "select rowid, * from parent"), rows(database, "select * from v")) == before
    assert rows(database, "select rowid, * from child") == stored
    assert rows(database, "select * from log") == []
    database.execute("insert into parent (name) values ('new')")
    assert scalar(database, "select max(id) from parent") == 91
    with pytest.raises(ConstraintError):
        database.execute("insert into parent (name) values ('NEW')")
    database.execute("delete from parent where id = 3")
    assert rows(database, "select line from log order by line") == [("a",), ("b",)]
    assert rows(database, "select * from child") == []
    assert [each.name for each in table(database, "parent").indexes] == ["i"]


def test_rebuild_preserves_hidden_rowids(database: Connection) -> None:
    database.execute("create table t (rowid text, a); insert into t (oid, a) values (4, 'x'), (2, 'y')")
    apply(database, [SetDefault("t", "a", "'1'")])
    assert rows(database, "select oid, a from t order by oid") == [(2, "y"), (4, "x")]
    database.execute("create table w (a text primary key, b) without rowid; insert into w values ('k', 1)")
    apply(database, [SetDefault("w", "b", "'1'"), SetPrimaryKey("w", ())])
    assert rows(database, "select a, b from w") == [("k", 1)]


def test_rebuild_preserves_rows_with_shadowed_rowid_names(database: Connection) -> None:
    database.execute(
        "create table t (rowid, oid, _rowid_ text); insert into t values (2, 1, 'x'), (1, 2, 'y')"
    )
    apply(database, [SetDefault("t", "_rowid_", "'z'")])
    assert sorted(rows(database, "select * from t")) == [(1, 2, "y"), (2, 1, "x")]
    apply(database, [SetDefault("t", "_rowid_", None)])
    assert "in a row the value" in refusal(database, RetypeColumn("t", "_rowid_", "integer"))


def test_added_integer_key_takes_rowids(database: Connection) -> None:
    apply(database, [CreateTable("t", (Column("name", "text", unique=True),))])
    database.execute("insert into t (rowid, name) values (4, 'a'), (7, 'b')")
    key = Column("id", "integer", primary_key=True, note="its number")
    apply(database, [AddColumn("t", key)])
    database.execute("insert into t (name) values ('c')")
    assert rows(database, "select id, name from t order by id") == [(4, "a"), (7, "b"), (8, "c")]
    assert (table(database, "t").key, table(database, "t").column("id").note) == (("id",), "its number")
    with pytest.raises(ConstraintError):
        database.execute("insert into t (name) values ('a')")
    assert "has no values yet" in refusal(
        database, AddColumn("t", Column("id2", "integer", primary_key=True))
    )
    apply(database, [CreateTable("u", (Column("name", "text"),))])
    assert "has no values yet" in refusal(database, AddColumn("u", Column("id", "text", primary_key=True)))
