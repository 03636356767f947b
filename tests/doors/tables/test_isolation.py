"""Isolation of projects: no SQL, header, path or body reaches the tables of another."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.doors.tables.tables_door import Tables

Open = Callable[..., Tables]


@pytest.fixture
def mine(open_tables: Open) -> Tables:
    mine, theirs = open_tables("mine"), open_tables("theirs")
    for each in (mine, theirs):
        each.schema("create table secrets (word text)")
    theirs.exec("insert into secrets values ('theirs')")
    return mine


def test_same_sql_reads_rows_of_own_project_only(mine: Tables, open_tables: Open) -> None:
    mine.exec("insert into secrets values ('mine')")
    assert mine.query("select word from secrets").rows == [{"word": "mine"}]
    assert open_tables("theirs").query("select word from secrets").rows == [{"word": "theirs"}]


@pytest.mark.parametrize(
    "sql",
    [
        "attach '../theirs/tables.db' as other",
        "attach $1 as other",
        "select * from other.secrets",
        "select * from '../theirs/tables.db'.secrets",
        'select * from "../theirs/tables.db"',
        "select * from theirs.secrets",
        "pragma temp_store_directory = '../theirs'",
        "vacuum into '../theirs/tables.db'",
        "create virtual table temp.x using csv(filename='../theirs/tables.db')",
        "select load_extension('../theirs/tables.db')",
        "select readfile('../theirs/tables.db')",
    ],
)
def test_sql_cannot_open_other_files(mine: Tables, sql: str) -> None:
    params = ["../theirs/tables.db"] if "$1" in sql else []
    for answer in (mine.query(sql, *params), mine.exec(sql, *params), mine.batch((sql, *params))):
        assert answer.status in (400, 403)
        assert str(mine.folder.parent) not in answer.text


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/query", {"headers": (("host", b"tables.theirs.svc.internal"), ("x-svc-project", b"theirs"))}),
        ("/v1/query", {"headers": (("authorization", b"theirs"), ("cookie", b"project=theirs"))}),
        ("/v1/query", {"query": "project=theirs&file=../theirs/tables.db"}),
    ],
)
def test_headers_and_query_string_cannot_select_project(
    mine: Tables, path: str, more: dict[str, Any]
) -> None:
    body = json.dumps({"sql": "select word from secrets"}).encode()
    assert mine.send(path, body, **more).rows == []


@pytest.mark.parametrize(
    "path",
    [
        "/theirs/v1/query",
        "/v1/query/../../theirs",
        "/../theirs/v1/query",
        "/v1/query/",
        "//v1/query",
        "/v1/query\0",
    ],
)
def test_other_paths_are_not_found(mine: Tables, path: str) -> None:
    assert mine.send(path, b'{"sql": "select word from secrets"}').status == 404


@pytest.mark.parametrize("key", ["project", "database", "file", "caller"])
def test_body_cannot_select_project(mine: Tables, key: str) -> None:
    body = json.dumps({"sql": "select word from secrets", key: "theirs"}).encode()
    assert mine.send("/v1/query", body).code == "bad-request"
