"""Guests can read the schema of their own tables, and nothing of svc's."""

from typing import Any

import pytest

from tests.doors.tables.tables_door import Tables

INTERNAL = "create table _svc_other (note unique)"
ORDERS = "create table orders (id integer primary key, user_id integer not null references users (id))"


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    "table",
    [
        "sqlite_schema",
        "sqlite_master",
        "SQLITE_Master",
        "main.sqlite_master",
        '"sqlite_master"',
        "[sqlite_schema]",
        "`sqlite_schema`",
    ],
)
def test_schema_table_lists_own_tables_without_internal_ones(tables: Tables, table: str) -> None:
    tables.schema(INTERNAL, "create index by_age on users (age)")
    for answer in (
        tables.query(f"select name, type from {table}"),
        tables.exec(f"select name, type from {table}"),
    ):
        assert sorted(names(answer.rows)) == ["by_age", "sqlite_autoindex_users_1", "users"]


def test_schema_table_has_the_columns_of_sqlite(tables: Tables) -> None:
    (row,) = tables.query("select rowid, * from sqlite_schema where type = 'table'").rows
    assert (row["type"], row["name"], row["tbl_name"]) == ("table", "users", "users")
    assert row["sql"].startswith("CREATE TABLE users (")
    assert row["rootpage"] > 1


def test_schema_table_shows_schema_change(tables: Tables) -> None:
    sql = "select count(*) as n from sqlite_master where type = 'table'"
    assert tables.query(sql).rows == [{"n": 1}]
    tables.schema(ORDERS)
    assert tables.query(sql).rows == [{"n": 2}]


def test_schema_table_name_in_text_is_unchanged(tables: Tables) -> None:
    sql = "select 'sqlite_master' as a, name as b from sqlite_master -- sqlite_master\n where type = 'table'"
    assert tables.query(sql).rows == [{"a": "sqlite_master", "b": "users"}]
    assert tables.query("select 1 as a from sqlite_master where nope").document["position"] == 40


@pytest.mark.parametrize(
    ("sql", "column", "values"),
    [
        ("pragma table_info(users)", "name", ["id", "name", "age"]),
        ("PRAGMA main.table_xinfo('users')", "name", ["id", "name", "age"]),
        ("pragma table_list(users)", "name", ["users"]),
        ("pragma index_list(users)", "name", ["sqlite_autoindex_users_1"]),
        ("pragma index_info(sqlite_autoindex_users_1)", "name", ["name"]),
        ("pragma foreign_key_list(orders)", "table", ["users"]),
        ("pragma table_info(missing)", "name", []),
        ("select * from pragma_table_info($1)", "name", ["id", "name", "age"]),
    ],
)
def test_pragma_describes_own_table(tables: Tables, sql: str, column: str, values: list[str]) -> None:
    tables.schema(ORDERS)
    params = ("users",) if "$1" in sql else ()
    for answer in (tables.query(sql, *params), tables.exec(sql, *params)):
        assert [row[column] for row in answer.rows] == values


def test_schema_table_joins_columns_of_each_table(tables: Tables) -> None:
    tables.schema(INTERNAL, ORDERS)
    rows = tables.query(
        'select m.name as "table", p.name as name from "sqlite_master" as m, pragma_table_info(m.name) as p'
        " where m.type in ('table', 'view') order by m.name, p.cid"
    ).rows
    assert [tuple(row.values()) for row in rows] == [
        ("orders", "id"),
        ("orders", "user_id"),
        ("users", "id"),
        ("users", "name"),
        ("users", "age"),
    ]


@pytest.mark.parametrize("name", ["_svc_other", "_SVC_OTHER", "sqlite_autoindex__svc_other_1"])
def test_pragma_table_of_internal_name_at_run_time_is_refused(tables: Tables, name: str) -> None:
    tables.schema(INTERNAL)
    for function in ("pragma_table_info", "pragma_index_info", "pragma_table_list"):
        answer = tables.query(f"select name from {function}($1)", name)
        assert answer.status >= 400 or answer.rows == [], answer.text
        if answer.status >= 400:
            assert (answer.status, answer.code) == (403, "not-allowed")
            assert answer.document["detail"] == f"guests cannot use the table {name}"
    assert tables.query("select 1 as a").rows == [{"a": 1}]


def test_write_to_schema_table_is_refused(tables: Tables) -> None:
    for sql in ("delete from sqlite_master", "update sqlite_schema set sql = ''", "drop table sqlite_master"):
        assert tables.exec(sql).code in ("not-allowed", "sql-error")
    for sql in ("delete from _svc_catalog_", "insert into _svc_catalog_ values (1, 2, 3, 4, 5)"):
        assert tables.exec(sql).code in ("not-allowed", "sql-error")
    assert len(tables.query("select * from sqlite_master").rows) == 2


def test_text_of_open_quotes_is_answered_at_once(tables: Tables) -> None:
    for quote in "'\"[`":
        assert tables.query("sqlite_master" + quote * 60_001).code == "sql-error"
