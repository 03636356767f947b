"""The history of rows: what wrote them, the tables at a moment, and reverts."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doors.tables import migrations
from doors.tables.door import TablesDoor
from doors.tables.files.snapshot import copy_before, rows_written
from doors.tables.replication import history as history_of_tables
from doors.tables.replication import journal, recorder
from doors.tables.replication.entry import Entry, Origin
from doors.tables.replication.history import At, History, Reverted, find_writes, revert, tables_at
from doors.tables.replication.journal import FOLDER, read_frames, segments, trim_days
from doors.tables.sqlite.connections import DATABASE_NAME, apsw
from doors.tables.sqlite.errors import TablesError, transaction
from doors.tables.sqlite.owner import open_for_reading, open_for_writing
from engine.trace import Call, Capture
from tests.doors.tables.tables_door import Answer, Tables
from tests.support.examples import examples

CREATE = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)"
SCHEMA = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, v, w BLOB)",
    "CREATE TABLE b (k TEXT, n, d TEXT AS (k || n) STORED, PRIMARY KEY (k, n)) WITHOUT ROWID",
    "CREATE TABLE c (id INTEGER PRIMARY KEY, d AS (v || '!') VIRTUAL, v UNIQUE)",
    "CREATE TABLE log (id INTEGER PRIMARY KEY, text)",
    "CREATE TRIGGER a_log AFTER INSERT ON a BEGIN INSERT INTO log (text) VALUES ('a' || new.id); END",
)
TABLES = ("a", "b", "c", "log")
VALUES = st.one_of(st.none(), st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=3))
STATEMENTS = st.one_of(
    st.builds(lambda v: ("INSERT INTO a (v, w) VALUES (?, CAST(? AS BLOB))", v, "x"), VALUES),
    st.builds(lambda v, n: ("UPDATE a SET v = ? WHERE id % 3 = ?", v, n), VALUES, st.integers(0, 2)),
    st.builds(lambda n: ("UPDATE a SET id = id + 1000 WHERE id = ?", n), st.integers(1, 9)),
    st.builds(lambda n: ("DELETE FROM a WHERE id % 3 = ?", n), st.integers(0, 2)),
    st.builds(
        lambda k, n: ("INSERT OR REPLACE INTO b (k, n) VALUES (?, ?)", k, n),
        st.sampled_from("xyz"),
        st.integers(0, 2),
    ),
    st.builds(lambda k: ("UPDATE OR IGNORE b SET k = ? WHERE n = 1", k), st.sampled_from("xyz")),
    st.builds(lambda v: ("INSERT OR REPLACE INTO c (v) VALUES (?)", v), VALUES),
    st.just(("DELETE FROM c",)),
    st.just(("DELETE FROM b",)),
)


class Shop(Tables):
    """Tables with a journal."""

    def __init__(self, data: Path, loop: asyncio.AbstractEventLoop) -> None:
        data.mkdir()
        self.data = data
        super().__init__(data / "tables", loop, TablesDoor())
        self.folder.mkdir()

    def as_request(self, id: str, sql: str, *params: Any) -> Answer:
        return self.send("/v1/exec", json.dumps({"sql": sql, "params": params}).encode(), request=id)

    def history(self, **what: Any) -> History:
        with open_for_reading(self.data) as connection:
            return find_writes(connection, **what)

    def revert(self, entry: str, *, plan: bool = False, skip: bool = False) -> Reverted:
        with open_for_writing(self.data, origin=Origin("revert", user="ann")) as connection:
            return revert(connection, entry, plan=plan, skip=skip)

    def rows_at(self, sql: str, at: At, table: str = "") -> list[Any]:
        with (
            open_for_reading(self.data) as connection,
            tables_at(connection, at, table) as (path, _),
            closing(apsw.Connection(str(path))) as copy,
        ):
            return copy.execute(sql).fetchall()

    def contents(self) -> dict[str, Any]:
        with open_for_reading(self.data) as connection:
            return {
                name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in TABLES
            }

    def edit(self, *statements: str, origin: Origin) -> None:
        """Change rows as a user."""
        with open_for_writing(self.data, origin=origin) as connection:
            connection.execute("begin immediate")
            for statement in statements:
                connection.execute(statement)
            connection.execute("commit")


@pytest.fixture
def shop(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop", loop)
    shop.schema(CREATE)
    yield shop
    shop.close()


def test_requests_and_users_are_the_origins_of_changes(shop: Shop) -> None:
    shop.as_request("r1", "INSERT INTO item VALUES (1, 'tea', 10)")
    shop.as_request("r2", "UPDATE item SET price = 11 WHERE id = 1")
    shop.edit("UPDATE item SET name = 'coffee'", origin=Origin("edit", user="ann"))
    found = shop.history(table="ITEM", key=["1"])
    assert found.complete
    assert found.lacks == []
    assert [(each.operation, each.before, each.after) for each in found.rows] == [
        ("update", {"name": "tea"}, {"name": "coffee"}),
        ("update", {"price": 10}, {"price": 11}),
        ("insert", None, {"id": 1, "name": "tea", "price": 10}),
    ]
    edit, update, insert = (each.write for each in found.rows)
    assert (edit.by, edit.user, edit.requests) == ("edit", "ann", [])
    assert (update.by, update.deployment, update.requests) == ("request", "first", ["r2"])
    assert insert.requests == ["r1"]
    [price, _] = shop.history(table="item", key=[1], column="price").rows
    assert (price.before, price.after) == ({"price": 10}, {"price": 11})
    assert [each.key for each in shop.history(request="r2").rows] == [{"id": 1}]


def test_key_columns_are_written_by_the_insert_and_changes_of_the_key(shop: Shop) -> None:
    shop.schema(
        "CREATE TABLE pair (a TEXT NOT NULL, b INTEGER NOT NULL, v, PRIMARY KEY (a, b)) WITHOUT ROWID"
    )
    shop.exec("INSERT INTO pair VALUES ('x', 1, 1)")
    shop.exec("UPDATE pair SET v = 2")
    shop.exec("UPDATE pair SET b = 2")
    shop.exec("UPDATE pair SET v = 3")
    [key] = shop.history(table="pair", key=["x", 2], column="a").rows
    assert (key.operation, key.before, key.after) == ("insert", None, {"a": "x"})
    rows = shop.history(table="pair", key=["x", 1], column="b").rows
    assert [(each.operation, each.before, each.after) for each in rows] == [
        ("delete", {"b": 1}, None),
        ("insert", None, {"b": 1}),
    ]


@pytest.mark.parametrize(("together", "known"), [(8, True), (9, False)])
def test_requests_of_one_transaction_are_recorded_apart_unless_there_are_many(
    shop: Shop, together: int, known: bool
) -> None:
    async def send_all() -> list[Answer]:
        sql = "INSERT INTO item (name) VALUES ($1)"
        bodies = [json.dumps({"sql": sql, "params": [f"n{each}"]}).encode() for each in range(together)]
        sent = (shop.send_async("/v1/exec", body, request=f"r{each}") for each, body in enumerate(bodies))
        return await asyncio.gather(*sent)

    shop.as_request("first", "INSERT INTO item VALUES (100, 'x', 0)")
    with shop.opened._database._writer._queued:  # type: ignore[attr-defined]
        sending = shop.loop.create_task(send_all())
        shop.run(asyncio.sleep(0))
    assert [each.status for each in shop.run(_result(sending))] == [200] * together
    for number in range(together):
        rows = shop.history(request=f"r{number}").rows
        if known:
            assert [each.after["name"] for each in rows if each.after] == [f"n{number}"]
            assert all(each.write.requests == [f"r{number}"] for each in rows)
        else:
            assert len(rows) == together
            assert all(len(each.write.requests) == together for each in rows)


async def _result(task: "asyncio.Task[list[Answer]]") -> list[Answer]:
    return await task


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(40),
)
@given(before=st.lists(STATEMENTS, max_size=6), after=st.lists(STATEMENTS, min_size=1, max_size=12))
def test_tables_at_each_moment_are_as_they_were(
    shop: Shop, before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    shop.schema(*(f"DROP TABLE IF EXISTS {name}" for name in TABLES), *SCHEMA)
    for statement in before:
        shop.exec(*statement)
    moments = [(time.time_ns(), shop.contents())]
    for statement in after:
        shop.exec(*statement)
        moments.append((time.time_ns(), shop.contents()))
    for time_ns, expected in moments:
        found = {
            name: shop.rows_at(f"SELECT * FROM {name} ORDER BY 1, 2", At(time_ns=time_ns)) for name in TABLES
        }
        assert found == expected


def test_steps_go_to_the_changes_of_a_table(shop: Shop) -> None:
    shop.schema("CREATE TABLE other (id INTEGER PRIMARY KEY)")
    for price in range(3):
        shop.exec("INSERT INTO item (price) VALUES (?)", price)
        shop.exec("INSERT INTO other DEFAULT VALUES")
    sql = "SELECT count(*) FROM item"
    last = shop.history(table="item", key=[3]).rows[0].write.entry
    assert shop.rows_at(sql, At(entry=last)) == [(3,)]
    assert shop.rows_at(sql, At(entry=last, step=-1), "item") == [(2,)]
    first = shop.history(table="item", key=[1]).rows[0].write.entry
    assert shop.rows_at(sql, At(entry=first, step=1), "item") == [(2,)]
    with pytest.raises(TablesError, match="nothing was written to item after that"):
        shop.rows_at(sql, At(entry=last, step=1), "item")
    with pytest.raises(TablesError, match=r"the history of .* begins at 20"):
        shop.rows_at(sql, At(entry=first, step=-1), "item")


def test_moment_whose_segment_is_removed_meanwhile_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 0)
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    time_ns = time.time_ns()
    for price in (11, 12):
        shop.exec("UPDATE item SET price = ?", price)
    find_moment = history_of_tables._find_moment

    def then_trimmed(path: Path, *arguments: Any) -> Any:
        found = find_moment(path, *arguments)
        for segment in sorted(path.parent.glob(f"{FOLDER}/*/*"))[:-1]:
            segment.unlink()
        return found

    monkeypatch.setattr(history_of_tables, "_find_moment", then_trimmed)
    with pytest.raises(TablesError, match="became shorter meanwhile"):
        shop.rows_at("SELECT price FROM item", At(time_ns=time_ns))


def test_steps_pass_tables_with_a_longer_name(shop: Shop) -> None:
    shop.schema("CREATE TABLE items (id INTEGER PRIMARY KEY)")
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.exec("UPDATE item SET price = 11")
    shop.exec("INSERT INTO items VALUES (1)")
    now = At(time_ns=time.time_ns(), step=-1)
    assert shop.rows_at("SELECT price FROM item", now, "item") == [(10,)]


def test_entries_of_another_log_are_not_shown(shop: Shop, tmp_path: Path) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    (segment,) = (shop.folder / FOLDER).glob("*/*")
    whole = segment.read_bytes()
    other = [
        replace(each, content=each.content.replace(b"tea", b"oil")).frame() for each in read_frames(whole)
    ]
    segment.write_bytes(b"".join(other))
    assert shop.history(table="item", key=["1"]).rows == []
    segment.write_bytes(whole)
    (segment.parent / ".DS_Store").touch()
    assert len(shop.history(table="item", key=["1"]).rows) == 1


def test_segment_that_cannot_be_read_is_named(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    (segment,) = (shop.folder / FOLDER).glob("*/*")
    segment.unlink()
    segment.mkdir()
    with pytest.raises(TablesError, match="the journal cannot be read: Is a directory"):
        shop.history(table="item", key=["1"])


def test_moment_before_the_history_is_refused(shop: Shop) -> None:
    with pytest.raises(TablesError, match=r"the history of .* begins at 20"):
        shop.rows_at("SELECT 1", At(time_ns=1))


def test_moment_before_a_dropped_column_is_refused(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    then = time.time_ns()
    shop.schema("ALTER TABLE item ADD COLUMN unit TEXT")
    shop.exec("UPDATE item SET price = 11, unit = 'kg'")
    assert shop.rows_at("SELECT * FROM item", At(time_ns=then)) == [(1, "tea", 10, None)]
    shop.schema("ALTER TABLE item DROP COLUMN price")
    with pytest.raises(TablesError, match="had another schema: ALTER TABLE item DROP COLUMN price"):
        shop.rows_at("SELECT * FROM item", At(time_ns=then))


REBUILD = (
    "CREATE TABLE new (id INTEGER PRIMARY KEY, price INTEGER, label TEXT)",
    "INSERT INTO new SELECT id, price, name FROM item",
    "DROP TABLE item",
    "ALTER TABLE new RENAME TO item",
)


@pytest.mark.parametrize(
    "statement", ["-- a note\nALTER TABLE item DROP COLUMN name", "ALTER TABLE item ALTER name SET NOT NULL"]
)
def test_moment_before_a_changed_column_is_refused(shop: Shop, statement: str) -> None:
    before_ns = time.time_ns()
    shop.exec("INSERT INTO item (id) VALUES (1)")
    shop.exec("UPDATE item SET name = 'tea'")
    drop(shop, statement)
    with pytest.raises(TablesError, match="had another schema"):
        shop.rows_at("SELECT * FROM item", At(time_ns=before_ns))


@pytest.mark.parametrize(
    "statement",
    ["CREATE UNIQUE INDEX i ON item (name)", "ALTER TABLE item ADD x DEFAULT 'drop /* rename to */'"],
)
def test_moment_before_a_change_that_loses_no_rows_is_shown(shop: Shop, statement: str) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10), (2, 'tea', 20)")
    before_ns = time.time_ns()
    shop.exec("DELETE FROM item WHERE id = 2")
    drop(shop, statement)
    assert shop.rows_at("SELECT id, name FROM item", At(time_ns=before_ns)) == [(1, "tea"), (2, "tea")]


def test_cell_is_followed_through_a_renamed_column(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.exec("UPDATE item SET name = 'oil'")
    drop(shop, "ALTER TABLE item RENAME price TO cost")
    shop.exec("UPDATE item SET cost = 11")
    found = shop.history(table="item", key=["1"], column="cost")
    assert [each.after for each in found.rows] == [{"cost": 11}, {"price": 10}]


def test_row_is_followed_through_a_table_that_is_built_again(shop: Shop) -> None:
    shop.as_request("r1", "INSERT INTO item VALUES (1, 'tea', 10)")
    then = time.time_ns()
    with (
        open_for_writing(shop.data, origin=Origin("migration", user="ann")) as connection,
        transaction(connection, "the migration"),
    ):
        for statement in REBUILD:
            connection.execute(statement)
    shop.as_request("r2", "UPDATE item SET price = 11, label = 'green tea'")
    found = shop.history(table="item", key=["1"])
    assert [(each.write.by, each.table, each.operation, each.before, each.after) for each in found.rows] == [
        ("request", "item", "update", {"price": 10, "label": "tea"}, {"price": 11, "label": "green tea"}),
        ("migration", "new", "insert", None, {"id": 1, "price": 10, "label": "tea"}),
        ("request", "item", "insert", None, {"id": 1, "name": "tea", "price": 10}),
    ]
    assert [each.after for each in shop.history(request="r1").rows] == [{"id": 1, "name": "tea", "price": 10}]
    assert shop.rows_at("SELECT id, name, price FROM item", At(time_ns=then)) == [(1, "tea", 10)]
    assert shop.rows_at("SELECT count(*) FROM sqlite_schema WHERE name = 'new'", At(time_ns=then)) == [(0,)]
    first, last = found.rows[-1].write.entry, found.rows[0].write.entry
    with pytest.raises(TablesError, match="cannot be reverted: the schema of item has changed since"):
        shop.revert(first)
    shop.schema("ALTER TABLE item ADD COLUMN unit TEXT")
    assert shop.revert(last).applied
    assert shop.query("SELECT price, label FROM item").rows == [{"price": 10, "label": "tea"}]


def test_table_that_is_dropped_and_created_again_has_the_history_of_both(shop: Shop) -> None:
    shop.schema("CREATE TABLE note (v TEXT, k TEXT NOT NULL PRIMARY KEY, w BLOB)")
    shop.exec("INSERT INTO note VALUES ('x', '1', x'00')")
    first, then = shop.history(table="note", key=["1"]).rows[0].write.entry, time.time_ns()
    shop.edit("UPDATE note SET v = 'y'", origin=Origin("sql"))
    drop(shop, "DROP TABLE note")
    assert [each.operation for each in shop.history(table="NOTE", key=["1"]).rows] == [
        "delete",
        "update",
        "insert",
    ]
    shop.schema("CREATE TABLE note (k INTEGER PRIMARY KEY)")
    shop.exec("INSERT INTO note VALUES (1)")
    found = shop.history(table="note", key=["1"]).rows
    assert [each.after for each in found] == [
        {"k": 1},
        None,
        {"v": "y"},
        {"v": "x", "k": "1", "w": {"base64": "AA=="}},
    ]
    assert shop.rows_at("SELECT v, k FROM note", At(time_ns=then)) == [("x", "1")]
    with pytest.raises(TablesError, match="the schema of note has changed since"):
        shop.revert(first)


def test_large_table_that_is_dropped_is_followed_and_not_shown(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "DROPPED_BYTES", 4096)
    shop.exec("INSERT INTO item VALUES (1, ?, 10)", "x" * 10_000)
    then = time.time_ns()
    drop(shop, "DROP TABLE item")
    [row] = shop.history(table="item", key=["1"], column="price").rows
    assert row.after == {"price": 10}
    with pytest.raises(TablesError, match="had another schema: DROP TABLE item"):
        shop.rows_at("SELECT 1", At(time_ns=then))


def test_drop_without_a_record_of_its_rows_ends_the_history(shop: Shop) -> None:
    """As an earlier svc has written it."""
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Entry, "encode", lambda entry, encode=Entry.encode: encode(replace(entry, undo=())))
        drop(shop, "DROP TABLE item")
        shop.schema(CREATE)
    shop.exec("INSERT INTO item VALUES (1, 'salt', 3)")
    assert [each.after for each in shop.history(table="item", key=["1"]).rows] == [
        {"id": 1, "name": "salt", "price": 3}
    ]


def test_failed_drop_changes_no_rows(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.schema("CREATE TRIGGER gone AFTER DELETE ON item BEGIN INSERT INTO item VALUES (2, 'copy', 1); END")
    with open_for_writing(shop.data) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("begin immediate")
        connection.execute("insert into item values (3, 'salt', 2)")
        cursor = connection.cursor()
        cursor.execute("select * from item")
        with pytest.raises(apsw.LockedError):
            connection.execute("drop table item")
        cursor.close()
        connection.execute("commit")
    assert shop.query("SELECT id FROM item").rows == [{"id": 1}, {"id": 3}]
    assert [each.operation for each in shop.history(table="item", key=["3"]).rows] == ["insert"]


def drop(shop: Shop, statement: str) -> None:
    """Drop tables as the Console and migrations do."""
    with open_for_writing(shop.data) as connection, transaction(connection, "the tables"):
        connection.execute(statement)


SCHEMAS = (
    "CREATE TABLE x (id INTEGER PRIMARY KEY AUTOINCREMENT, v)",
    "CREATE TABLE x (v, w, k TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE y (id INTEGER PRIMARY KEY, v UNIQUE)",
    "DROP TABLE x",
    "DROP TABLE y",
    "ALTER TABLE x RENAME TO y",
    "ALTER TABLE y RENAME TO x",
    "CREATE INDEX i ON x (v)",
    "INSERT INTO x (v) VALUES (1), (2), (3)",
    "INSERT INTO x (v, k) VALUES (1, hex(randomblob(4)))",
    "INSERT INTO y (v) VALUES (random())",
    "UPDATE x SET v = random()",
    "UPDATE y SET v = random() WHERE rowid % 2",
    "DELETE FROM x WHERE v % 2",
)


def contents_of(connection: apsw.Connection) -> dict[str, Any]:
    sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name IN ('x', 'y') ORDER BY name"
    return {
        name: (sql, connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall())
        for name, sql in connection.execute(sql).fetchall()
    }


def test_tables_at_each_moment_are_as_they_were_across_changes_of_the_schema(shop: Shop) -> None:
    chosen, moments, done = random.Random(11), [], 0
    for _ in range(examples(250)):
        with suppress(TablesError):
            drop(shop, chosen.choice(SCHEMAS))
            done += 1
        with open_for_reading(shop.data) as connection:
            moments.append((time.time_ns(), contents_of(connection)))
    assert 3 * done > examples(250)
    for time_ns, expected in chosen.sample(moments[1:], 25):
        with (
            open_for_reading(shop.data) as connection,
            tables_at(connection, At(time_ns=time_ns)) as (path, _),
            closing(apsw.Connection(str(path))) as copy,
        ):
            assert contents_of(copy) == expected


def test_table_without_a_key_is_named(shop: Shop) -> None:
    shop.schema("CREATE TABLE loose (v)")
    then = time.time_ns()
    shop.schema("CREATE TRIGGER t AFTER UPDATE ON item BEGIN INSERT INTO loose VALUES (1); END")
    shop.as_request("r1", "INSERT INTO item VALUES (1, 'tea', 10)")
    shop.as_request("r2", "UPDATE item SET price = 11")
    assert shop.history(request="r2").lacks == ["table loose, which has no primary key"]
    assert shop.history(request="r1").lacks == shop.history(table="item", key=[1]).lacks == []
    assert shop.history(table="item", key=[1]).rows[0].after == {"price": 11}
    assert shop.rows_at("SELECT * FROM item", At(time_ns=then)) == []
    with pytest.raises(TablesError, match="loose has no primary key, so its rows have no history"):
        shop.history(table="loose", key=[1])
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    with pytest.raises(TablesError, match="its record lacks table loose"):
        shop.revert(entry)


def test_each_table_without_a_key_in_a_transaction_is_named(shop: Shop) -> None:
    shop.schema("CREATE TABLE x (v)")
    shop.schema("CREATE TABLE y (v)")
    shop.batch(
        ("INSERT INTO x VALUES (1)",), ("INSERT INTO item (id) VALUES (1)",), ("INSERT INTO y VALUES (1)",)
    )
    shop.exec("INSERT INTO y VALUES (2)")
    found = shop.history(table="item", key=[1])
    assert [each.operation for each in found.rows] == ["insert"]
    assert found.lacks == []
    lacks = shop.history(request="request-1").lacks
    assert sorted(lacks) == [f"table {name}, which has no primary key" for name in "xy"]


def test_revert_is_planned_first_and_does_not_repeat_triggers(shop: Shop) -> None:
    shop.schema(*SCHEMA)
    shop.exec("INSERT INTO a (v) VALUES ('x')")
    before = shop.contents()
    entry = shop.history(table="a", key=[1]).rows[0].write.entry
    plan = shop.revert(entry, plan=True)
    assert [(each.operation, each.table) for each in plan.rows] == [("delete", "a"), ("delete", "log")]
    assert not plan.applied
    assert shop.contents() == before
    assert shop.revert(entry).applied
    assert shop.contents() == {name: [] for name in TABLES}
    write = shop.history(table="a", key=[1]).rows[0].write
    assert (write.by, write.user) == ("revert", "ann")
    assert shop.revert(write.entry).applied
    assert shop.contents() == before


def test_conflicts_of_a_revert_are_shown_and_change_nothing_or_are_left_out(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 20), (3, 'oil', 30)")
    shop.as_request("wrong", "UPDATE item SET price = price + 1")
    entry = shop.history(request="wrong").rows[0].write.entry
    shop.exec("UPDATE item SET price = 99 WHERE id = 1")
    shop.exec("DELETE FROM item WHERE id = 2")
    refused = shop.revert(entry)
    assert not refused.applied
    assert {each.key["id"]: each.conflict for each in refused.rows} == {1: "changed", 2: "deleted", 3: ""}
    assert [each.current for each in refused.rows if each.conflict == "changed"] == [
        {"id": 1, "name": "tea", "price": 99}
    ]
    assert shop.query("SELECT price FROM item WHERE id = 3").rows == [{"price": 31}]
    assert shop.revert(entry, skip=True).applied
    assert shop.query("SELECT id, price FROM item").rows == [{"id": 1, "price": 99}, {"id": 3, "price": 30}]


def test_revert_that_breaks_a_reference_is_refused(shop: Shop) -> None:
    shop.schema("CREATE TABLE part (id INTEGER PRIMARY KEY, item REFERENCES item)")
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.exec("INSERT INTO part VALUES (1, 1)")
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    with pytest.raises(TablesError, match="rows would refer to missing rows"):
        shop.revert(entry, skip=True)
    assert shop.query("SELECT count(*) AS n FROM item").rows == [{"n": 1}]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_revert_runs_no_action_of_a_foreign_key(shop: Shop, action: str) -> None:
    shop.schema(f"CREATE TABLE part (id INTEGER PRIMARY KEY, item REFERENCES item ON DELETE {action})")
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.exec("INSERT INTO part VALUES (1, 1)")
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    for plan in (True, False):
        with pytest.raises(TablesError, match="rows would refer to missing rows"):
            shop.revert(entry, plan=plan, skip=True)
    assert shop.query("SELECT item FROM part").rows == [{"item": 1}]


def test_revert_restores_what_actions_of_foreign_keys_changed(shop: Shop) -> None:
    reference = "REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE"
    shop.schema(f"CREATE TABLE part (id INTEGER PRIMARY KEY, item {reference})")
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    shop.exec("INSERT INTO part VALUES (1, 1)")
    for change in ("UPDATE item SET id = 2", "DELETE FROM item"):
        shop.as_request("wrong", change)
        entry = shop.history(request="wrong").rows[0].write.entry
        assert shop.revert(entry).applied
        assert shop.query("SELECT item FROM part").rows == [{"item": 1}]
        again = shop.history(table="item", key=[1]).rows[0].write.entry
        assert shop.revert(again).applied
        assert shop.revert(shop.history(table="item", key=[1]).rows[0].write.entry).applied
    assert shop.query("SELECT item FROM part").rows == [{"item": 1}]


def test_conflicts_of_a_large_revert_are_shown(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_of_tables, "MAX_WRITES", 5)
    shop.exec(f"INSERT INTO item (price) VALUES {', '.join(['(1)'] * 40)}")
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    shop.exec("DELETE FROM item WHERE id = 31")
    refused = shop.revert(entry, plan=True)
    assert sorted(each.conflict for each in refused.rows) == ["", "", "", "", "deleted"]
    assert not shop.revert(entry).applied


def test_text_that_is_not_utf8_is_named(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, CAST(x'ff41' AS TEXT), 10)")
    shop.exec("UPDATE item SET price = 11")
    time_ns = time.time_ns()
    shop.exec("UPDATE item SET name = 'tea'")
    found = shop.history(table="item", key=[1])
    assert [each.after for each in found.rows] == [{"price": 11}]
    assert found.lacks == ["rows of table item with text that is not UTF-8"]
    assert shop.rows_at("SELECT hex(name) FROM item", At(time_ns=time_ns)) == [("FF41",)]
    position = found.rows[0].write.entry.rpartition("-")
    with pytest.raises(TablesError, match="it has text that is not UTF-8"):
        shop.revert(f"{position[0]}-{int(position[2]) + 1}")


def test_unknown_entries_and_changes_of_the_schema_are_not_reverted(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    log, _, number = entry.rpartition("-")
    for unknown in ("", "x", f"other-{number}", f"{log}-{int(number) + 1}"):
        with pytest.raises(TablesError, match="the history has no entry"):
            shop.revert(unknown)
    with pytest.raises(TablesError, match=r"reverted: CREATE TABLE item .* changed the schema") as raised:
        shop.revert(f"{log}-{int(number) - 1}")
    assert log not in raised.value.message
    assert raised.value.hint == "Undo it in a new migration, or restore a backup: svc restore --at TIME."


def migrate(shop: Shop, *files: str) -> None:
    """Apply migrations as a deployment does."""
    found = [migrations.Migration(f"tables/{number}.sql", sql) for number, sql in enumerate(files, 1)]
    origin = Origin("migration", deployment="second", user="ann")
    with open_for_writing(shop.data, origin=origin) as connection:
        migrations.apply(connection, found)


def test_migration_that_changes_only_rows_is_reverted(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 20)")
    before = shop.query("SELECT * FROM item").rows
    files = ["UPDATE item SET price = 11; DELETE FROM item WHERE id = 2; INSERT INTO item (id) VALUES (3);"]
    for file in (
        "UPDATE item SET price = 12;",
        "ALTER TABLE item ADD unit TEXT; UPDATE item SET price = 13;",
    ):
        migrate(shop, *files)
        write = shop.history(table="item", key=[1]).rows[0].write
        assert (write.by, write.deployment) == ("migration", "second")
        assert shop.revert(write.entry).applied
        assert shop.query("SELECT * FROM item").rows == before
        files.append(file)
    migrate(shop, *files)
    entry = shop.history(table="item", key=[1]).rows[0].write.entry
    with pytest.raises(
        TablesError, match="reverted: ALTER TABLE item ADD unit TEXT changed the schema"
    ) as raised:
        shop.revert(entry)
    assert "svc restore --before-deployment second" in raised.value.hint


def test_wrong_keys_are_refused(shop: Shop) -> None:
    for key, message in (([], "is id: 1 values, not 0"), ([1, 2], "not 2")):
        with pytest.raises(TablesError, match=message):
            shop.history(table="item", key=key)
    with pytest.raises(TablesError, match="table nothing does not exist"):
        shop.history(table="nothing", key=[1])
    with pytest.raises(TablesError, match="no column x"):
        shop.history(table="item", key=[1], column="x")


def test_values_of_any_size_are_cut_in_the_history(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, ?, 10)", "x" * 100_000)
    [row] = shop.history(table="item", key=[1]).rows
    assert row.after is not None
    assert row.after["name"]["size"] == 100_000
    assert len(row.after["name"]["text"]) < 100_000


def test_transaction_with_too_many_changes_is_a_gap(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    then = time.time_ns()
    monkeypatch.setattr(recorder, "MAX_CHANGES", 1000)
    shop.exec("UPDATE item SET name = ?", "x" * 5000)
    monkeypatch.undo()
    shop.exec("UPDATE item SET price = 12")
    found = shop.history(table="item", key=[1])
    assert found.lacks == ["a transaction with so many changes"]
    assert [each.operation for each in found.rows] == ["update", "insert"]
    with pytest.raises(TablesError, match="has no record: a transaction with so many changes"):
        shop.rows_at("SELECT 1", At(time_ns=then))


def test_old_segments_are_removed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(journal, "MAX_BYTES", 20_000)
    for number in range(300):
        shop.exec("INSERT INTO item (name) VALUES (?)", f"number {number}")
    folder = shop.folder / FOLDER
    assert sum(each.stat().st_size for each in folder.glob("*/*")) < 22_000
    found = shop.history(table="item", key=[1])
    assert (found.rows, found.complete) == ([], True)
    assert shop.history(table="item", key=[300]).rows
    trim_days([folder], days=0)
    assert len(list(folder.glob("*/*"))) == 1
    shop.exec("UPDATE item SET name = 'last' WHERE id = 300")
    assert shop.history(table="item", key=[300]).rows[0].after == {"name": "last"}


def test_entries_of_an_earlier_version_are_read(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    [segment] = segments(next((shop.folder / FOLDER).iterdir()))
    *_, last = read_frames(segment.read_bytes())
    line, _, body = last.content.partition(b"\n")
    head = json.loads(line)
    del head["origins"]
    old = Entry.decode(json.dumps(head | {"format": 1}).encode() + b"\n" + body)
    assert old.origins == ()
    assert old.parts == Entry.decode(last.content).parts
    assert Entry.decode(last.content).origins == (Origin("request", "first", requests=["request-1"]),)


def test_undone_rows_get_the_same_numbers_again(shop: Shop) -> None:
    shop.schema(*SCHEMA)
    shop.exec("INSERT INTO a (v) VALUES (1)")
    then = time.time_ns()
    shop.exec("INSERT INTO a (v) VALUES (2), (3)")
    shop.exec("INSERT INTO a (v) VALUES (4)")
    assert shop.rows_at("SELECT seq FROM sqlite_sequence", At(time_ns=then)) == [(1,)]


def test_copy_before_a_time_has_the_tables_that_statements_name_and_their_references(shop: Shop) -> None:
    shop.schema(
        "CREATE TABLE shops (id INTEGER PRIMARY KEY)",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, shop REFERENCES shops, at TIMESTAMP DEFAULT (now()))",
        "CREATE VIEW cheap AS SELECT id, shop FROM items",
        "CREATE TABLE other (id)",
        "INSERT INTO shops VALUES (1)",
        "INSERT INTO items VALUES (1, 1, 'then')",
    )
    then, target = time.time_ns(), shop.data / "copy.db"
    shop.exec("UPDATE items SET at = 'now'")
    shop.exec("DELETE FROM items")
    statements = ["SELECT * FROM cheap WHERE id = $1", "no SQL", "SELECT * FROM missing"]
    copied = copy_before(shop.data, target, statements, then, 1 << 20)
    assert copied is not None
    assert (copied.names, copied.undone, copied.lacks) == (("cheap", "items", "shops"), 2, ())
    with closing(apsw.Connection(str(target))) as connection:
        assert connection.execute("SELECT * FROM items").fetchall() == [(1, 1, "then")]
    assert copy_before(shop.data, target, ["SELECT 1"], then, 1 << 20) is None


def test_copy_above_limit_raises(shop: Shop) -> None:
    shop.schema("CREATE TABLE big (v)", "INSERT INTO big VALUES (zeroblob(200000))")
    with pytest.raises(TablesError, match="the tables big have more than 0 MiB") as raised:
        copy_before(shop.data, shop.data / "copy.db", ["SELECT * FROM big"], time.time_ns(), 100_000)
    assert raised.value.hint == "Leave the rows out: --no-rows."


def test_failed_requests_wrote_nothing(shop: Shop) -> None:
    shop.schema(*SCHEMA)
    answer = shop.as_request("r1", "INSERT INTO c (id, v) VALUES (1, 1), (2, 1)")
    assert (answer.code, rows_written(shop.data, "r1")) == ("constraint", [])


def test_capture_has_the_time_of_the_write(shop: Shop) -> None:
    call = Call("door", "", 0, capture=Capture())
    before = time.time_ns()
    shop.send("/v1/exec", b'{"sql": "INSERT INTO item VALUES (1, null, 2)"}', call=call)
    assert call.capture is not None
    assert before <= call.capture.time_ns <= rows_written(shop.data, "request-1")[0].write.time_ns


def test_history_of_another_journal_begins_with_the_next_write(shop: Shop) -> None:
    shop.exec("INSERT INTO item VALUES (1, 'tea', 10)")
    journal.begin_again(shop.folder / DATABASE_NAME)
    found = shop.history(table="item", key=[1])
    assert (found.rows, found.since_ns) == ([], None)
    shop.edit("UPDATE item SET price = 11", origin=Origin("edit", user="ann"))
    found = shop.history(table="item", key=[1])
    assert found.since_ns == found.rows[0].write.time_ns


def test_history_of_new_tables_is_empty(tmp_path: Path) -> None:
    with open_for_reading(tmp_path) as connection:
        assert find_writes(connection, request="r1").rows == []
    assert not (tmp_path / "tables" / DATABASE_NAME).exists()
