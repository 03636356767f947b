"""The changes of rows that a recorded request makes, and their reversal."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doors.tables.files.snapshot import Snapshot, copy_before, undo
from doors.tables.sqlite.connections import apsw
from engine.trace import MAX_CAPTURE_BYTES, Call, Capture
from tests.doors.tables.tables_door import Answer, Tables
from tests.support.examples import examples

SCHEMA = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, v, w BLOB)",
    "CREATE TABLE b (k TEXT, n, d TEXT AS (k || n) STORED, PRIMARY KEY (k, n)) WITHOUT ROWID",
    "CREATE TABLE c (rowid TEXT, v UNIQUE)",
    "CREATE TABLE log (text)",
    "CREATE TRIGGER a_log AFTER INSERT ON a BEGIN INSERT INTO log VALUES ('a' || new.id); END",
)
TABLES = ("a", "b", "c", "log")


def recorded(tables: Tables, sql: str, *params: Any) -> tuple[Capture, Answer]:
    """Run a statement of a recorded request."""
    call = Call("door", "", 0, capture=Capture())
    body = json.dumps({"sql": sql, "params": params}).encode()
    answer = tables.send("/v1/exec", body, call=call)
    assert call.capture is not None
    return call.capture, answer


def contents(tables: Tables) -> dict[str, Any]:
    owner = tables.owner()
    try:
        rows = {name: owner.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in TABLES[:3]}
        return rows | {"log": owner.execute("SELECT rowid, text FROM log").fetchall()}
    finally:
        owner.close()


def undone(tables: Tables, captures: list[Capture]) -> tuple[int, int]:
    owner = tables.owner()
    owner.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        with owner:
            # As they are stored: in JSON.
            stored = json.loads(json.dumps([capture.changes for capture in captures]))
            return undo(owner, [change for changes in reversed(stored) for change in reversed(changes)])
    finally:
        owner.close()


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
    st.builds(lambda v: ("INSERT OR REPLACE INTO c VALUES ('r', ?)", v), VALUES),
    st.just(("DELETE FROM c",)),
    st.just(("DELETE FROM b",)),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(60),
)
@given(before=st.lists(STATEMENTS, max_size=6), after=st.lists(STATEMENTS, min_size=1, max_size=12))
def test_undo_of_recorded_changes_restores_all_rows(
    tables: Tables, before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    tables.schema(*(f"DROP TABLE IF EXISTS {name}" for name in TABLES), *SCHEMA)
    for statement in before:
        recorded(tables, *statement)
    expected = contents(tables)
    captures = [recorded(tables, *statement)[0] for statement in after]
    assert undone(tables, captures)[1] == 0
    assert contents(tables) == expected


def test_undone_rows_get_the_same_numbers_again(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    recorded(tables, "INSERT INTO a (v) VALUES (1)")
    captures = [recorded(tables, "INSERT INTO a (v) VALUES (2), (3)")[0]]
    captures.append(recorded(tables, "INSERT INTO a (v) VALUES (4)")[0])
    undone(tables, captures)
    assert tables.exec("INSERT INTO a (v) VALUES (5)").document["last_id"] == 2


def test_failed_statement_records_no_changes(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    capture, answer = recorded(tables, "INSERT INTO c VALUES ('r', 1), ('s', 1)")
    assert (answer.code, capture.changes) == ("constraint", [])


def test_truncated_table_is_recorded_row_by_row(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    for _ in range(3):
        tables.exec("INSERT INTO c (v) VALUES (random())")
    assert tables.exec("DELETE FROM c").document["changes"] == 3  # compiled while nothing is recorded
    tables.exec("INSERT INTO c (v) VALUES (1)")
    capture, _ = recorded(tables, "DELETE FROM c")
    assert [change[:2] for change in capture.changes] == [["DELETE", "c"]]
    assert undone(tables, [capture]) == (1, 0)


def test_changes_above_limit_are_reported_as_incomplete(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    capture, _ = recorded(tables, "INSERT INTO a (v) VALUES (?)", "x" * (MAX_CAPTURE_BYTES + 1))
    assert (capture.changes, capture.complete) == ([], False)
    assert len(capture.sent) == MAX_CAPTURE_BYTES
    capture, _ = recorded(tables, "INSERT INTO a (v) VALUES (1)")
    assert (len(capture.changes), capture.complete) == (2, True)


def test_changes_of_table_with_virtual_columns_are_incomplete(tables: Tables) -> None:
    tables.schema("CREATE TABLE v (a, b AS (a + 1) VIRTUAL)")
    capture, answer = recorded(tables, "INSERT INTO v VALUES (1)")
    assert (answer.status, capture.changes, capture.complete) == (200, [], False)


def test_rows_changed_in_other_ways_are_counted(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    first, _ = recorded(tables, "INSERT INTO a (v) VALUES ('one')")
    second, _ = recorded(tables, "UPDATE a SET v = 'two'")
    tables.schema("DELETE FROM a")
    assert undone(tables, [first, second]) == (2, 1)
    assert contents(tables)["a"] == []


def test_changed_rows_of_a_table_with_a_default_of_now_are_undone_in_a_copy(tables: Tables) -> None:
    tables.schema("CREATE TABLE d (id INTEGER PRIMARY KEY, name TEXT, at TIMESTAMP NOT NULL DEFAULT (now()))")
    tables.schema("INSERT INTO d VALUES (1, 'x', 'then'), (2, 'y', 'then')")
    captures = [recorded(tables, sql)[0] for sql in ("UPDATE d SET name = 'z' WHERE id = 1", "DELETE FROM d")]
    data, target = tables.folder.parent, tables.folder.parent / "copy.db"
    tables.folder.rename(data / "tables")
    stored = json.loads(json.dumps([capture.changes for capture in captures]))
    changes = [change for each in reversed(stored) for change in reversed(each)]
    assert copy_before(data, target, ["SELECT * FROM d"], changes, 1 << 20) == Snapshot(("d",), 3, 0)
    copied = apsw.Connection(str(target))
    assert copied.execute("SELECT * FROM d").fetchall() == [(1, "x", "then"), (2, "y", "then")]
    copied.close()


def test_copy_has_the_tables_that_statements_name_and_their_references(tables: Tables) -> None:
    tables.schema(
        "CREATE TABLE shops (id INTEGER PRIMARY KEY)",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, shop REFERENCES shops)",
        "CREATE VIEW cheap AS SELECT * FROM items",
        "CREATE TABLE other (id)",
        "INSERT INTO shops VALUES (1)",
        "INSERT INTO items VALUES (1, 1)",
    )
    data, target = tables.folder.parent, tables.folder.parent / "copy.db"
    tables.folder.rename(data / "tables")
    statements = ["SELECT * FROM cheap WHERE id = $1", "no SQL", "SELECT * FROM missing"]
    assert copy_before(data, target, statements, [], 1 << 20) == Snapshot(("cheap", "items", "shops"), 0, 0)
    copied = apsw.Connection(str(target))
    assert copied.execute("SELECT * FROM cheap").fetchall() == [(1, 1)]
    copied.close()
    assert copy_before(data, target, ["SELECT 1"], [], 1 << 20) is None


def test_copy_above_limit_raises(tables: Tables) -> None:
    tables.schema("CREATE TABLE big (v)", "INSERT INTO big VALUES (zeroblob(200000))")
    data = tables.folder.parent
    tables.folder.rename(data / "tables")
    with pytest.raises(Exception, match="the tables big have more than 0 MiB") as raised:
        copy_before(data, data / "copy.db", ["SELECT * FROM big"], [], 100_000)
    assert getattr(raised.value, "hint", "") == "Leave the rows out: --no-rows."


def test_concurrent_requests_record_their_own_changes(tables: Tables) -> None:
    tables.schema(*SCHEMA)
    calls = [Call("door", "", 0, capture=Capture()) for _ in range(20)]

    async def send(number: int, call: Call) -> Answer:
        # Every fifth statement fails, so that groups are rolled back and run again.
        sql = "INSERT INTO c VALUES ('r', ?)" if number % 5 else "INSERT INTO c VALUES ('r', ?), ('s', ?1)"
        body = json.dumps({"sql": sql, "params": [number]}).encode()
        return await tables.send_async("/v1/exec", body, call=call)

    async def send_all() -> list[Answer]:
        return await asyncio.gather(*(send(number, call) for number, call in enumerate(calls)))

    statuses = [answer.status for answer in tables.run(send_all())]
    assert statuses == [200 if number % 5 else 409 for number in range(20)]
    captures = [call.capture for call in calls if call.capture is not None]
    changed = [[change[5][1] for change in capture.changes] for capture in captures]
    assert changed == [[number] if number % 5 else [] for number in range(20)]
    assert undone(tables, sorted(captures, key=lambda capture: capture.time_ns)) == (16, 0)
