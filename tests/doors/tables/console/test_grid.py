"""Grids over the control API: windows, sort, filter, search and cells."""

import base64
import json
from typing import Any

import httpx
import pytest

from doors.tables.sqlite.connections import open_owner
from svc_tui.client import ApiError, Client
from tests.doors.tables.console.grids import create_many_rows, open_grid, refused_grid, window
from tests.doors.tables.console.shop import Shop


def names(shop: Shop, **more: Any) -> list[str]:
    grid = open_grid(shop, **more)
    at = [column["name"] for column in grid["columns"]].index("name")
    result = [row[at] for row in window(shop, grid)["rows"]]
    assert len(result) == grid["count"]
    return result


def test_grid_without_sort_is_ordered_by_key(users: Shop) -> None:
    grid = open_grid(users)
    assert (grid["table"], grid["count"], grid["key"], grid["editable"], grid["reason"]) == (
        "users",
        2,
        ["id"],
        True,
        "",
    )
    assert grid["columns"] == users.get("table", name="users")["columns"]
    rows = window(users, grid)
    assert [row[:2] for row in rows["rows"]] == [[1, "Ada"], [2, "Grace"]]
    assert (rows["start"], rows["keys"], rows["stale"]) == (0, [[1], [2]], False)
    assert window(users, grid, start=1, n=1)["keys"] == [[2]]
    assert window(users, grid, start=2)["rows"] == []


@pytest.mark.parametrize("sort", [[], [{"column": "name"}], [{"column": "note", "descending": True}]])
@pytest.mark.parametrize("deleted", [0, 7])
def test_grid_window_matches_sql_result(shop: Shop, sort: list[Any], deleted: int) -> None:
    create_many_rows(shop, 1000)
    shop.query("delete from many where id % 50 = $1", deleted, write=True)
    grid = open_grid(shop, "many", sort=sort)
    order = ", ".join(each["column"] + " desc" * each.get("descending", False) for each in sort)
    expected = shop.query(f"select * from many order by {order}{', ' * bool(order)}id")["rows"]
    assert grid["count"] == len(expected)
    for start, n in ((0, 1), (0, 1000), (411, 37), (970, 1000), (2000, 5)):
        assert window(shop, grid, start, n)["rows"] == [
            list(row.values()) for row in expected[start : start + n]
        ]


@pytest.mark.parametrize("first", [-2, -1, 0, 1, 7])
def test_grid_shows_rows_of_any_first_rowid(shop: Shop, first: int) -> None:
    create_many_rows(shop, 3)
    shop.query("update many set id = id + 100", write=True)
    shop.query("update many set id = id - 101 + $1", first, write=True)
    grid = open_grid(shop, "many")
    assert [row[0] for row in window(shop, grid)["rows"]] == [first, first + 1, first + 2]


def test_grid_of_missing_table_column_or_id_is_refused(users: Shop) -> None:
    assert refused_grid(users, "usres").code == "not-found"
    assert "no column nme" in refused_grid(users, sort=[{"column": "nme"}]).message
    with pytest.raises(ApiError) as exc_info:
        users.get("grid/0123456789abcdef/rows", start=0, n=1)
    assert exc_info.value.code == "not-found"


def test_cell_request_returns_value_by_row_key(users: Shop) -> None:
    grid = open_grid(users)
    result = users.get(f"grid/{grid['grid']}/cell", key=json.dumps([2]), column="NAME")
    assert result == {"value": "Grace"}


def test_viewer_can_open_read_and_close_grid(users: Shop, address: str) -> None:
    with Client(address, "viewer") as client:
        viewer = Shop(client, users.data)
        grid = open_grid(viewer)
        assert len(window(viewer, grid)["rows"]) == 2
        client.call("DELETE", f"/v1/projects/shop/grid/{grid['grid']}")
        with pytest.raises(ApiError, match="closed"):
            window(viewer, grid)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ([("age", "=", 36)], ["Ada"]),
        ([("age", "=", "36")], ["Ada"]),
        ([("age", "!=", 36)], ["Grace", "100%", "Nul"]),
        ([("age", "=", None)], ["Nul"]),
        ([("age", ">", "36"), ("age", "<=", 85)], ["Grace"]),
        ([("name", "contains", "A")], ["Ada", "Grace"]),
        ([("name", "starts", "a")], ["Ada"]),
        ([("name", "contains", "0%")], ["100%"]),
        ([("name", "contains", "_")], []),
        ([("note", "empty", None)], ["Ada", "Grace"]),
        ([("note", "not-empty", None)], ["100%", "Nul"]),
        ([("alive", "=", "yes")], ["100%"]),
        ([("alive", "=", False)], ["Ada"]),
        ([("born", "<", "1906-12-10")], ["Grace"]),
        ([("born", ">=", "1906-12-09T02:00+02:00")], ["Grace"]),
    ],
)
def test_filter_returns_matching_rows(shop: Shop, filter: list[Any], expected: list[str]) -> None:
    types = {"name": "text", "age": "integer", "note": "text", "alive": "boolean", "born": "timestamp"}
    columns = [{"name": name, "type": type} for name, type in types.items()]
    shop.change({"op": "create-table", "table": "users", "columns": columns})
    shop.query(
        "insert into users values ('Ada', 36, null, 0, null), ('Grace', 85, '', null,"
        " '1906-12-09T00:00:00.000Z'), ('100%', 100, 'x', 1, null), ('Nul', null, 'y', null, null)",
        write=True,
    )
    conditions = [{"column": column, "op": op, "value": value} for column, op, value in filter]
    assert names(shop, filter=conditions) == expected


def test_search_matches_every_column(users: Shop) -> None:
    assert names(users, search="gra") == ["Grace"]
    assert names(users, search="2", filter=[{"column": "id", "op": "=", "value": 2}]) == ["Grace"]
    assert names(users, search="stranger") == []


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("=", "2024-01-01T10:00:00Z", [1, 2]),
        ("!=", "2024-01-01 10:00:00", [3, 4, 5, 6]),
        (">=", "2024-01-01", [1, 2, 3, 6]),
        ("<", "2024-01-01T05:00", [4, 5]),
        ("=", "1704103200", [5]),
        ("starts", "2024-01-01 10", [2]),
        ("=", "soon", [6]),
    ],
)
def test_filter_compares_times_in_the_form_in_which_they_are_shown(
    shop: Shop, op: str, value: str, expected: list[int]
) -> None:
    shop.query("create table log (id integer primary key, at datetime)", write=True)
    texts = "2024-01-01T10:00:00.000Z", "2024-01-01 10:00:00", "2024-01-01 12:00:00.5", "2023-12-31 23:59:59"
    for at in (*texts, 1704103200, "soon"):
        shop.query("insert into log (at) values ($1)", at, write=True)
    grid = open_grid(shop, "log", filter=[{"column": "at", "op": op, "value": value}])
    assert [row[0] for row in window(shop, grid)["rows"]] == expected


def test_filter_with_value_of_wrong_type_is_refused(users: Shop) -> None:
    error = refused_grid(users, filter=[{"column": "id", "op": "<", "value": "many"}])
    assert error.code == "filter" and "'many' is not a whole number" in error.message
    assert "integer" in error.hint
    assert refused_grid(users, filter=[{"column": "id", "op": "contains", "value": [1]}]).code == "filter"
    assert refused_grid(users, filter=[{"column": "id", "op": "~", "value": "x"}]).code == "invalid"


def test_cells_return_stored_values_exactly(shop: Shop) -> None:
    types = ["integer", "real", "text", "boolean", "timestamp", "json", "blob"]
    columns = [{"name": type, "type": type} for type in types]
    shop.change({"op": "create-table", "table": "t", "columns": columns})
    shop.query(
        "insert into t values (9223372036854775807, 9e999, 'nul ' || char(0), 1, '2026-01-02T03:04:05.678Z',"
        " '{\"a\":  1.0}', x'00ff')",
        write=True,
    )
    (row,) = window(shop, open_grid(shop, "t"))["rows"]
    assert row == [
        2**63 - 1,
        float("inf"),
        "nul \0",
        True,
        "2026-01-02T03:04:05.678Z",
        '{"a":  1.0}',
        {"base64": "AP8="},
    ]


def test_long_cell_is_truncated_and_fetched_in_full_by_key(shop: Shop) -> None:
    shop.query("create table t (k text primary key not null, a text, b blob)", write=True)
    text, blob = "ü" * 3_000_000, b"\xff" * 5000
    connection = open_owner(shop.data / "tables" / "tables.db")
    connection.execute("insert into t values ('x', ?, ?)", (text, blob))
    connection.close()
    grid = open_grid(shop, "t")
    (row,) = window(shop, grid)["rows"]
    assert row[1] == {"size": 6_000_000, "text": "ü" * 512}
    assert row[2]["size"] == 5000 and len(base64.b64decode(row[2]["base64"])) == 1024
    path = f"grid/{grid['grid']}/cell"
    assert shop.get(path, key='["x"]', column="a") == {"value": text}
    assert base64.b64decode(shop.get(path, key='["x"]', column="b")["value"]["base64"]) == blob
    with pytest.raises(ApiError) as exc_info:
        shop.get(path, key='["y"]', column="a")
    assert exc_info.value.code == "row-gone"
    for key in ("x", "[]", "{}", '["x", 1]'):
        with pytest.raises(ApiError, match="key"):
            shop.get(path, key=key, column="a")


def test_non_utf_8_text_is_returned_as_base64(users: Shop) -> None:
    connection = open_owner(users.data / "tables" / "tables.db")
    connection.execute("update users set name = cast(x'ff41' as text) where id = 2")
    connection.close()
    grid = open_grid(users)
    assert [row[1] for row in window(users, grid)["rows"]] == ["Ada", {"base64": "/0E="}]
    assert users.get(f"grid/{grid['grid']}/cell", key="[2]", column="name")["value"] == {"base64": "/0E="}


def test_views_keyless_and_without_rowid_tables_open_as_grids(shop: Shop) -> None:
    shop.query("create table t (a text, b integer, rowid text, primary key (b, a)) without rowid", write=True)
    shop.query("insert into t values ('x', 2, 'p'), ('y', 1, 'q')", write=True)
    shop.query("create view v as select rowid, a || b as ab from t", write=True)
    shop.query("create table log (line text)", write=True)
    shop.query("insert into log values ('one'), ('two')", write=True)
    grid = open_grid(shop, "t")
    shown = window(shop, grid)
    assert (grid["key"], shown["keys"]) == (["b", "a"], [[1, "y"], [2, "x"]])
    request = {"rows": [{"key": [2, "x"], "version": shown["versions"][1]}]}
    shop.query("insert into t values ('a', 1, 'r')", write=True)
    result = shop.post(f"grid/{grid['grid']}/refresh", request)
    assert result == {"count": 3, "new": None, "rows": [{"state": "unchanged", "position": 2}]}
    grid = open_grid(shop, "v", sort=[{"column": "ab", "descending": True}])
    assert not grid["editable"]
    assert window(shop, grid)["rows"] == [["q", "y1"], ["p", "x2"], ["r", "a1"]]
    assert shop.get(f"grid/{grid['grid']}/cell", key="[2]", column="ab") == {"value": "x2"}
    grid = open_grid(shop, "log")
    assert (window(shop, grid)["keys"], grid["key"]) == ([[1], [2]], [])
    assert shop.get(f"grid/{grid['grid']}/cell", key="[2]", column="line") == {"value": "two"}


def test_tables_with_shadowed_rowid_names_open_as_grids(shop: Shop) -> None:
    shop.query("create table t (k text primary key not null, rowid, oid, _rowid_)", write=True)
    shop.query("insert into t (k) values ('b'), ('a')", write=True)
    grid = open_grid(shop, "t")
    assert window(shop, grid)["keys"] == [["a"], ["b"]]
    shop.query("create table nameless (rowid, oid, _rowid_)", write=True)
    shop.query("insert into nameless values (7, 8, 9)", write=True)
    assert window(shop, open_grid(shop, "nameless"))["rows"] == [[7, 8, 9]]


def test_lone_surrogate_in_request_is_refused(users: Shop, address: str) -> None:
    half = "\ud800"
    opening: list[dict[str, Any]] = [{"search": half}]
    opening += [
        {"filter": [{"column": "name", "op": "contains", "value": half}]},
        {"filter": [{"column": "name", "op": "=", "value": half}]},
        {"filter": [{"column": half, "op": "=", "value": "x"}]},
    ]
    requests = [("grid", each) for each in opening] + [("rows", {"changes": [{"insert": {half: half}}]})]
    headers = {"authorization": "Bearer owner", "content-type": "application/json"}
    for route, body in requests:
        answer = httpx.post(
            f"{address}/v1/projects/shop/{route}",
            content=json.dumps({"table": "users", **body}),
            headers=headers,
            timeout=60,
        )
        assert answer.status_code == 422, answer.text
