import json
from typing import Any

import pytest

from tests.doors.tables.asking import Tables


def test_a_row_that_exec_wrote_is_what_query_reads(tables: Tables) -> None:
    written = tables.exec("insert into users (name, age) values ($1, $2)", "Ada", 36)
    assert written.document == {"changes": 1, "last_id": 1}
    read = tables.query("select * from users where name = $1", "Ada")
    assert read.rows == [{"id": 1, "name": "Ada", "age": 36}]
    assert read.headers["content-type"] == b"application/json"


def test_a_short_read_is_answered_at_once(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    assert tables.query("select name from users where id = $1", 1).at_once


def test_exec_counts_changes_and_tells_the_last_id(tables: Tables) -> None:
    assert tables.exec("insert into users (name) values ('a'), ('b'), ('c')").document == {
        "changes": 3,
        "last_id": 3,
    }
    assert tables.exec("update users set age = 1 where id > 1").document == {"changes": 2, "last_id": 0}
    assert tables.exec("delete from users").document == {"changes": 3, "last_id": 0}
    assert tables.exec("delete from users").document == {"changes": 0, "last_id": 0}


def test_returning_gives_rows(tables: Tables) -> None:
    answer = tables.exec("insert into users (name) values ($1) returning id, upper(name) as loud", "Ada")
    assert answer.document == {"changes": 1, "last_id": 1, "rows": [{"id": 1, "loud": "ADA"}]}
    answer = tables.exec("delete from users where name = 'stranger' returning id")
    assert answer.document == {"changes": 0, "last_id": 0, "rows": []}


def test_on_conflict_updates(tables: Tables) -> None:
    sql = (
        "insert into users (name, age) values ($1, $2)"
        " on conflict (name) do update set age = excluded.age returning id, age"
    )
    assert tables.exec(sql, "Ada", 1).rows == [{"id": 1, "age": 1}]
    assert tables.exec(sql, "Ada", 2).rows == [{"id": 1, "age": 2}]


def test_common_table_expressions_and_json_functions_work(tables: Tables) -> None:
    tables.exec(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4)"
        " insert into users (name, age) select 'n' || i, i from n"
    )
    rows = tables.query(
        "with old as (select * from users where age >= $1)"
        " select json_group_array(name) as names, json_extract($2, '$.a') as a from old",
        3,
        '{"a": 7}',
    ).rows
    assert rows == [{"names": '["n3","n4"]', "a": 7}]
    assert tables.query("select value from json_each($1) order by value", [3, 1]).rows == [
        {"value": 1},
        {"value": 3},
    ]


def test_full_text_search_works_where_a_migration_made_the_index(tables: Tables) -> None:
    tables.schema("create virtual table notes using fts5(body)")
    tables.exec("insert into notes values ($1)", "the quick brown fox")
    assert tables.query("select body from notes where notes match $1", "fox").rows == [
        {"body": "the quick brown fox"}
    ]


def test_a_batch_is_one_transaction(tables: Tables) -> None:
    answer = tables.batch(
        ("insert into users (name) values ($1)", "Ada"),
        ("select count(*) as n from users",),
        ("update users set age = 3 returning name",),
    )
    assert answer.document["results"] == [
        {"changes": 1, "last_id": 1},
        {"changes": 0, "last_id": 0, "rows": [{"n": 1}]},
        {"changes": 1, "last_id": 0, "rows": [{"name": "Ada"}]},
    ]


def test_a_batch_that_fails_changes_nothing_and_names_the_statement(tables: Tables) -> None:
    answer = tables.batch(
        ("insert into users (name) values ('Ada')",),
        ("insert into users (name) values ('Bob')",),
        ("insert into users (name) values ('Ada')",),
    )
    assert (answer.status, answer.code, answer.document["statement"]) == (409, "constraint", 2)
    assert tables.query("select * from users").rows == []


def test_a_batch_of_queries_sees_one_state_and_is_answered_at_once(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    tables.query("select 1 as warm")
    answer = tables.batch(("select max(id) as n from users",), ("select name from users where id = $1", 1))
    assert answer.at_once
    assert [result["rows"] for result in answer.document["results"]] == [[{"n": 1}], [{"name": "Ada"}]]


def test_an_empty_batch_does_nothing(tables: Tables) -> None:
    assert tables.batch().document == {"results": []}


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/v1/query", b"", "not JSON"),
        ("/v1/query", b"[]", "JSON object"),
        ("/v1/query", b'"select 1"', "JSON object"),
        ("/v1/query", b'{"params": []}', "sql is missing"),
        ("/v1/query", b'{"sql": 1}', "sql is missing"),
        ("/v1/query", b'{"sql": "select 1 as a", "params": {"1": 2}}', "not an array"),
        ("/v1/query", b'{"sql": "select 1 as a", "parms": []}', "no parms"),
        ("/v1/query", b'{"sql": "select $1 as a", "params": [NaN]}', "NaN is not a JSON number"),
        ("/v1/query", b'{"sql": "\xff"}', "not UTF-8"),
        ("/v1/query", b"\xef\xbb\xbf{}", "not JSON"),
        ("/v1/query", b"[" * 100_000, "nested too deeply"),
        ("/v1/query", b'{"sql": "select 1", "params": [' + b"9" * 5000 + b"]}", "not JSON"),
        ("/v1/batch", b'{"sql": "select 1 as a"}', "not a batch"),
        ("/v1/batch", b'{"statements": [{"sql": "select 1 as a"}, 2]}', "JSON object"),
    ],
)
def test_a_body_of_another_form_is_told_what_the_form_is(
    tables: Tables, path: str, body: bytes, detail: str
) -> None:
    answer = tables.send(path, body)
    assert (answer.status, answer.code) == (400, "bad-request")
    assert detail in answer.document["detail"]
    assert "sql" in answer.document["hint"]


def test_problems_are_documents_as_rfc_9457_has_them(tables: Tables) -> None:
    answer = tables.query("selec 1")
    assert answer.headers["content-type"] == b"application/problem+json"
    assert answer.document == {
        "type": "urn:svc:problem:tables:sql-error",
        "title": "Bad Request",
        "status": 400,
        "code": "sql-error",
        "detail": 'near "selec": syntax error',
        "position": 1,
        "request_id": "request-1",
    }


def test_positions_count_characters_and_not_bytes(tables: Tables) -> None:
    assert tables.query("select 'ü€😀', nope").document["position"] == 15


def test_another_path_or_method_is_a_problem(tables: Tables) -> None:
    assert (tables.send("/v1/drop", b"{}").status, tables.send("/", b"{}").status) == (404, 404)
    answer = tables.send("/v1/query", b"", "GET")
    assert (answer.status, answer.headers["allow"]) == (405, b"POST")


def test_a_project_without_tables_is_told_how_to_make_one(open_tables: Any) -> None:
    answer = open_tables("fresh").query("select * from users")
    assert (answer.code, answer.document["detail"]) == ("sql-error", "no such table: users")
    assert "tables/*.sql" in answer.document["hint"]


def test_too_many_statements_are_refused(tables: Tables) -> None:
    statements = [{"sql": "select 1 as a"}] * 1001
    answer = tables.send("/v1/batch", json.dumps({"statements": statements}).encode())
    assert (answer.status, answer.code) == (413, "too-large")
