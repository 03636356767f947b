import json
import time
from typing import Any

import pytest

from engine.trace import MAX_BATCH_CALLS, MAX_NAME_CHARS, Call
from tests.doors.tables.tables_door import Tables


def test_query_returns_row_written_by_exec(tables: Tables) -> None:
    written = tables.exec("insert into users (name, age) values ($1, $2)", "Ada", 36)
    assert written.document == {"changes": 1, "last_id": 1}
    read = tables.query("select * from users where name = $1", "Ada")
    assert read.rows == [{"id": 1, "name": "Ada", "age": 36}]
    assert read.headers["content-type"] == b"application/json"


def test_short_read_is_answered_synchronously(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    assert tables.query("select name from users where id = $1", 1).synchronous


def test_exec_returns_changes_and_last_id(tables: Tables) -> None:
    assert tables.exec("insert into users (name) values ('a'), ('b'), ('c')").document == {
        "changes": 3,
        "last_id": 3,
    }
    assert tables.exec("update users set age = 1 where id > 1").document == {"changes": 2, "last_id": 0}
    assert tables.exec("delete from users").document == {"changes": 3, "last_id": 0}
    assert tables.exec("delete from users").document == {"changes": 0, "last_id": 0}


def test_exec_with_returning_returns_rows(tables: Tables) -> None:
    answer = tables.exec("insert into users (name) values ($1) returning id, upper(name) as loud", "Ada")
    assert answer.document == {"changes": 1, "last_id": 1, "rows": [{"id": 1, "loud": "ADA"}]}
    answer = tables.exec("delete from users where name = 'stranger' returning id")
    assert answer.document == {"changes": 0, "last_id": 0, "rows": []}


def test_exec_with_on_conflict_updates_row(tables: Tables) -> None:
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


def test_full_text_search_uses_index_of_migration(tables: Tables) -> None:
    tables.schema("create virtual table notes using fts5(body)")
    tables.exec("insert into notes values ($1)", "the quick brown fox")
    assert tables.query("select body from notes where notes match $1", "fox").rows == [
        {"body": "the quick brown fox"}
    ]


def test_batch_runs_in_one_transaction(tables: Tables) -> None:
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


def test_failed_batch_changes_nothing_and_names_statement(tables: Tables) -> None:
    answer = tables.batch(
        ("insert into users (name) values ('Ada')",),
        ("insert into users (name) values ('Bob')",),
        ("insert into users (name) values ('Ada')",),
    )
    assert (answer.status, answer.code, answer.document["statement"]) == (409, "constraint", 2)
    assert tables.query("select * from users").rows == []


def test_batch_of_queries_is_answered_synchronously(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    tables.query("select 1 as warm")
    answer = tables.batch(("select max(id) as n from users",), ("select name from users where id = $1", 1))
    assert answer.synchronous
    assert [result["rows"] for result in answer.document["results"]] == [[{"n": 1}], [{"name": "Ada"}]]


def trace(tables: Tables, path: str, **document: Any) -> Call:
    """Send a request with the span of a call, and return the call."""
    call = Call("door", "POST tables", time.perf_counter_ns())
    tables.send(path, json.dumps(document).encode(), call=call)
    return call


def test_calls_have_statement_and_its_numbers(tables: Tables) -> None:
    sql = "insert into users (name) values ($1), ('Bob') -- 'x'"
    call = trace(tables, "/v1/exec", sql=sql, params=["secret"])
    assert (call.kind, call.name) == ("sql", sql)
    assert call.details is not None and "secret" not in str(call)
    assert {key: call.details[key] for key in ("params", "rows", "transaction")} == {
        "params": 1,
        "rows": 2,
        "transaction": "write",
    }
    call = trace(tables, "/v1/query", sql="select name from users" + " " * 2000)
    assert len(call.name) == MAX_NAME_CHARS
    assert call.details is not None and (call.details["rows"], call.details["transaction"]) == (2, "read")
    assert trace(tables, "/v1/exec", sql=sql, params=["secret"]).code == "constraint"


def test_call_of_batch_has_its_statements(tables: Tables) -> None:
    statements = [{"sql": "insert into users (name) values ('Ada')"}] + [{"sql": "select 1"}] * 60
    call = trace(tables, "/v1/batch", statements=statements)
    assert call.name == "batch of 61" and call.statements is not None
    assert [each.name for each in call.statements][:2] == [each["sql"] for each in statements][:2]
    assert len(call.statements) == MAX_BATCH_CALLS


def test_batch_that_begins_with_slow_query_writes(tables: Tables) -> None:
    answer = tables.batch(("select count(*) as n from users",), ("insert into users (name) values ('Ada')",))
    assert [each["changes"] for each in answer.document["results"]] == [0, 1]
    answer = tables.batch(*((f"insert into users (name) values ('{n:0>100}')",) for n in range(400)))
    assert len(answer.document["results"]) == 400


def test_empty_batch_returns_no_results(tables: Tables) -> None:
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
        ("/v1/query", b"[" * 60_000, "nested too deeply"),
        (
            "/v1/query",
            b'{"sql": "select 1", "params": [' + b"9" * 5000 + b"]}",
            "JSON: a number has too many",
        ),
        ("/v1/batch", b'{"sql": "select 1 as a"}', "not a batch"),
        ("/v1/batch", b'{"statements": [{"sql": "select 1 as a"}, 2]}', "JSON object"),
    ],
)
def test_malformed_body_is_refused_with_hint(tables: Tables, path: str, body: bytes, detail: str) -> None:
    answer = tables.send(path, body)
    assert (answer.status, answer.code) == (400, "bad-request")
    assert detail in answer.document["detail"]
    assert "sql" in answer.document["hint"]


def test_errors_are_rfc_9457_problem_documents(tables: Tables) -> None:
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


def test_error_position_counts_characters(tables: Tables) -> None:
    assert tables.query("select 'ü€😀', nope").document["position"] == 15


def test_unknown_path_is_404_and_method_is_405(tables: Tables) -> None:
    assert (tables.send("/v1/drop", b"{}").status, tables.send("/", b"{}").status) == (404, 404)
    answer = tables.send("/v1/query", b"", "GET")
    assert (answer.status, answer.headers["allow"]) == (405, b"POST")


def test_missing_table_in_empty_project_hints_at_migrations(open_tables: Any) -> None:
    answer = open_tables("fresh").query("select * from users")
    assert (answer.code, answer.document["detail"]) == ("sql-error", "no such table: users")
    assert "tables/*.sql" in answer.document["hint"]


def test_batch_over_statement_limit_is_refused(tables: Tables) -> None:
    statements = [{"sql": "select 1 as a"}] * 1001
    answer = tables.send("/v1/batch", json.dumps({"statements": statements}).encode())
    assert (answer.status, answer.code) == (413, "too-large")
