"""Writes with an idempotency key: a repeated request gets the stored answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.doors.tables.tables_door import Answer, Tables

INSERT = "insert into t (v) values ($1) returning id"
COUNT = "select count(*) as n from t"


@pytest.fixture
def tables(open_tables: Callable[..., Tables]) -> Tables:
    opened = open_tables()
    opened.schema("create table t (id integer primary key, v text unique)")
    return opened


def send(tables: Tables, key: object, sql: str = INSERT, *params: Any, path: str = "/v1/exec") -> Answer:
    document = {"sql": sql, "params": params, "idempotency_key": key}
    return tables.send(path, json.dumps(document).encode())


def test_repeated_write_gets_the_first_answer(tables: Tables) -> None:
    first = send(tables, "k1", INSERT, "a")
    assert first.document == {"changes": 1, "last_id": 1, "rows": [{"id": 1}]}
    tables.exec("insert into t (v) values ('b')")
    assert send(tables, "k1", INSERT, "a").document == first.document
    assert send(tables, "k2", INSERT, "c").document["last_id"] == 3
    assert tables.query(COUNT).rows == [{"n": 3}]


def test_repeated_batch_gets_the_first_answer(tables: Tables) -> None:
    statements = [{"sql": INSERT, "params": [text]} for text in "ab"]
    body = json.dumps({"statements": statements, "idempotency_key": "k"}).encode()
    first = tables.send("/v1/batch", body)
    assert [result["last_id"] for result in first.document["results"]] == [1, 2]
    assert tables.send("/v1/batch", body).document == first.document
    assert tables.query(COUNT).rows == [{"n": 2}]


def test_answer_is_stored_across_restarts(tables: Tables, open_tables: Callable[..., Tables]) -> None:
    first = send(tables, "k", INSERT, "a")
    tables.close()
    again = open_tables()
    assert send(again, "k", INSERT, "a").document == first.document
    assert again.query(COUNT).rows == [{"n": 1}]


def test_key_of_another_request_is_refused(tables: Tables) -> None:
    assert send(tables, "k", INSERT, "a").status == 200
    reused = send(tables, "k", INSERT, "b")
    assert (reused.status, reused.code) == (409, "key-reused")
    assert tables.query(COUNT).rows == [{"n": 1}]


def test_failed_write_leaves_its_key_unused(tables: Tables) -> None:
    tables.exec("insert into t (v) values ('a')")
    assert send(tables, "k", INSERT, "a").code == "constraint"
    tables.exec("delete from t")
    assert send(tables, "k", INSERT, "a").status == 200
    assert tables.query(COUNT).rows == [{"n": 1}]


@pytest.mark.parametrize("key", ["", 7, None, "x" * 256, "a\nb", "\ud800"])
def test_invalid_key_is_refused(tables: Tables, key: object) -> None:
    answer = send(tables, key, INSERT, "a")
    assert (answer.status, answer.code) == (400, "bad-request")
    assert "idempotency_key" in answer.document["detail"]
    assert tables.query(COUNT).rows == [{"n": 0}]


def test_answer_over_the_limit_is_refused_and_nothing_is_written(tables: Tables) -> None:
    sql = "insert into t (v) values ($1) returning v"
    assert send(tables, "k", sql, "x" * 70_000).code == "too-large"
    assert tables.query(COUNT).rows == [{"n": 0}]


def test_expired_answers_are_removed(tables: Tables) -> None:
    for number in range(5):
        send(tables, f"k{number}", INSERT, f"{number}")
    tables.schema("update _svc_answers set at = at - 90000 where id < 5")
    send(tables, "new", INSERT, "new")
    owner = tables.owner()
    assert owner.execute("select key from _svc_answers").fetchall() == [("k2",), ("k3",), ("k4",), ("new",)]
    owner.close()


def test_guests_cannot_use_the_table_of_answers(tables: Tables) -> None:
    send(tables, "k", INSERT, "a")
    assert tables.query("select * from _svc_answers").code == "not-allowed"
    assert tables.query("select name from sqlite_schema where type = 'table'").rows == [{"name": "t"}]
