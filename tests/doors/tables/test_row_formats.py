"""Rows as arrays, columns of one name, and values as SQLite stores them."""

import json
from typing import Any

import pytest

from tests.doors.tables.tables_door import Answer, Tables

JOIN = "select a.id, b.id, b.name, a.raw, b.id from things a join users b on b.id = a.id"
THINGS = "create table things (id integer primary key, done boolean, doc json, raw blob, at timestamp)"


@pytest.fixture
def things(tables: Tables) -> Tables:
    tables.schema(THINGS)
    tables.exec("insert into users (id, name) values (1, 'Ada')")
    row = (True, {"a": 1}, {"base64": "AP8="})
    tables.exec("insert into things (id, done, doc, raw) values (1, ?, ?, ?)", *row)
    return tables


def send(tables: Tables, kind: str, sql: str, **members: Any) -> Answer:
    statement = {"sql": sql, **members}
    document = {"statements": [statement]} if kind == "batch" else statement
    return tables.send(f"/v1/{kind}", json.dumps(document).encode())


@pytest.mark.parametrize("kind", ["query", "exec", "batch"])
def test_arrays_have_columns_of_one_name(things: Tables, kind: str) -> None:
    answer = send(things, kind, JOIN, rows="arrays").document
    result = answer["results"][0] if kind == "batch" else answer
    assert result["columns"] == ["id", "id", "name", "raw", "id"]
    assert (result["rows"], result["blobs"]) == ([[1, 1, "Ada", "AP8=", 1]], [3])


def test_arrays_of_no_rows_have_columns(things: Tables) -> None:
    answer = send(things, "query", "select id, name from users where false", rows="arrays")
    assert answer.document == {"rows": [], "columns": ["id", "name"]}
    returning = send(things, "exec", "delete from users where false returning id", rows="arrays")
    assert returning.document == {"changes": 0, "last_id": 0, "rows": [], "columns": ["id"]}
    written = send(things, "exec", "delete from users where false", rows="arrays")
    assert written.document == {"changes": 0, "last_id": 0}


def test_arrays_of_many_rows_are_complete(things: Tables) -> None:
    numbers = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) select i, -i from n"
    )
    rows = send(things, "query", numbers, rows="arrays").rows
    assert rows == [[i, -i] for i in range(1, 101)]
    infinite = send(things, "query", "select 9e999, 1 union all select -9e999, 2", rows="arrays")
    assert '"rows":[[9e999,1],[-9e999,2]]' in infinite.text


def test_objects_refuse_columns_of_one_name_before_the_statement_runs(things: Tables) -> None:
    for rows in ({}, {"rows": "objects"}):
        answer = send(things, "query", "select 1 as a, 2 as a", **rows)
        assert (answer.code, answer.document["detail"]) == (
            "sql-error",
            "two columns of the result are named a",
        )
        assert "AS other" in answer.document["hint"] and '"arrays"' in answer.document["hint"]
    assert send(things, "exec", "delete from users returning id, name as id").code == "sql-error"
    assert things.query("select count(*) as n from users").rows == [{"n": 1}]


def test_last_column_of_one_name_wins(things: Tables) -> None:
    answer = send(
        things, "query", "select raw, raw as x, id as raw, 2 as x, 'b' as y from things", rows="last"
    )
    assert answer.document == {"rows": [{"raw": 1, "x": 2, "y": "b"}]}
    answer = send(things, "query", "select id as raw, raw from things", rows="last")
    assert answer.document == {"rows": [{"raw": "AP8="}], "blobs": ["raw"]}


def test_stored_values_are_those_of_sqlite(things: Tables) -> None:
    sql = "select done, doc, raw, at, x'01' as part, done as done from things"
    answer = send(things, "query", sql, rows="last", values="stored")
    assert answer.document == {
        "rows": [
            {"done": 1, "doc": '{"a":1}', "raw": {"base64": "AP8="}, "at": None, "part": {"base64": "AQ=="}}
        ]
    }
    answer = send(things, "query", "select done, raw from things", rows="arrays", values="stored")
    assert answer.document == {"rows": [[1, {"base64": "AP8="}]], "columns": ["done", "raw"]}


def test_many_columns_of_one_long_name_are_bounded(tables: Tables) -> None:
    sql = f'select {", ".join(["t.*"] * 500)} from (select 1 as "{"n" * 5000}") t'
    assert send(tables, "query", sql, rows="arrays").code == "too-large"
    assert list(send(tables, "query", sql, rows="last").rows[0].values()) == [1]
    statements = [{"sql": sql.replace("n" * 5000, "n" * 150), "rows": "arrays"}] * 1000
    answer = tables.send("/v1/batch", json.dumps({"statements": statements}).encode())
    assert answer.code == "too-large"


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ({"rows": "lists"}, "rows is not one of objects, arrays, last"),
        ({"rows": ["arrays"]}, "rows is not one of"),
        ({"values": None}, "values is not one of typed, stored"),
        ({"columns": True}, "a statement has no columns"),
    ],
)
def test_unknown_option_is_refused(tables: Tables, members: dict[str, Any], detail: str) -> None:
    for kind in ("query", "exec", "batch"):
        answer = send(tables, kind, "select 1", **members)
        assert (answer.status, answer.code) == (400, "bad-request")
        assert answer.document["detail"].startswith(detail)


def test_last_insert_rowid_and_changes_in_a_batch_are_of_the_statement_before(things: Tables) -> None:
    things.schema("create table orders (id integer primary key, user_id integer)")
    results = things.batch(
        ("insert into users (id, name) values (7, 'Bob'), (8, 'Eve')",),
        ("select changes() as n",),
        ("insert into orders (user_id) values (last_insert_rowid())",),
        ("select last_insert_rowid() as id",),
        ("update orders set user_id = user_id",),
    ).document["results"]
    assert [result["last_id"] for result in results] == [8, 0, 1, 0, 0]
    assert (results[1]["rows"], results[3]["rows"]) == ([{"n": 2}], [{"id": 1}])
    assert things.query("select user_id from orders").rows == [{"user_id": 8}]
    assert things.exec("select last_insert_rowid() as id").rows == [{"id": 0}]
