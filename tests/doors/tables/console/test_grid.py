"""A table in a grid over the control API: any window of any order, without reading what is before it."""

import base64
import json
import threading
from typing import Any

import httpx
import pytest

from doors.tables.console import grids
from doors.tables.database import open_owner
from doors.tables.grid import grid as grid_of_rows
from engine.errors import SvcError
from svc_tui.client import Client, Refused
from tests.doors.tables.console.conftest import Shop


def opened(shop: Shop, table: str = "users", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = shop.post("grid", {"table": table, **more})
    return found


def window(shop: Shop, grid: dict[str, Any], start: int = 0, n: int = 100) -> dict[str, Any]:
    found: dict[str, Any] = shop.get(f"grid/{grid['grid']}/rows", start=start, n=n)
    return found


def names(shop: Shop, **more: Any) -> list[str]:
    grid = opened(shop, **more)
    at = [column["name"] for column in grid["columns"]].index("name")
    found = [row[at] for row in window(shop, grid)["rows"]]
    assert len(found) == grid["count"]
    return found


def refused(shop: Shop, table: str = "users", **more: Any) -> Refused:
    with pytest.raises(Refused) as error:
        opened(shop, table, **more)
    return error.value


def test_a_grid_has_the_rows_of_a_table_in_the_order_of_its_key(users: Shop) -> None:
    grid = opened(users)
    assert (grid["table"], grid["count"], grid["key"], grid["editable"], grid["reason"]) == (
        "users",
        2,
        ["id"],
        True,
        "",
    )
    assert grid["columns"] == users.get("table", name="users")["columns"]
    shown = window(users, grid)
    assert [row[:2] for row in shown["rows"]] == [[1, "Ada"], [2, "Grace"]]
    assert (shown["start"], shown["keys"], shown["stale"]) == (0, [[1], [2]], False)
    assert window(users, grid, start=1, n=1)["keys"] == [[2]]
    assert window(users, grid, start=2)["rows"] == []


@pytest.mark.parametrize("sort", [[], [{"column": "name"}], [{"column": "note", "descending": True}]])
@pytest.mark.parametrize("deleted", [0, 7])
def test_any_window_of_any_order_is_what_sql_says(shop: Shop, sort: list[Any], deleted: int) -> None:
    many(shop, 1000)
    shop.query("delete from many where id % 50 = $1", deleted, write=True)
    grid = opened(shop, "many", sort=sort)
    order = ", ".join(each["column"] + " desc" * each.get("descending", False) for each in sort)
    wanted = shop.query(f"select * from many order by {order}{', ' * bool(order)}id")["rows"]
    assert grid["count"] == len(wanted)
    for start, n in ((0, 1), (0, 1000), (411, 37), (970, 1000), (2000, 5)):
        assert window(shop, grid, start, n)["rows"] == [
            list(row.values()) for row in wanted[start : start + n]
        ]


def many(shop: Shop, count: int) -> None:
    columns = [
        {"name": "id", "type": "integer", "primary_key": True},
        {"name": "name", "type": "text"},
        {"name": "note", "type": "text"},
    ]
    shop.change({"op": "create-table", "table": "many", "columns": columns})
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {count})"
    shop.query(f"insert into many {numbers} select i, 'n' || (i * 7919 % 1009), i % 7 from n", write=True)


def test_what_is_asked_wrongly_is_refused(users: Shop) -> None:
    assert refused(users, "usres").code == "not-found"
    assert "no column nme" in refused(users, sort=[{"column": "nme"}]).message
    with pytest.raises(Refused) as error:
        users.get("grid/0123456789abcdef/rows", start=0, n=1)
    assert error.value.code == "not-found"


def test_a_whole_cell_is_had_by_the_key_of_its_row(users: Shop) -> None:
    grid = opened(users)
    found = users.get(f"grid/{grid['grid']}/cell", key=json.dumps([2]), column="NAME")
    assert found == {"value": "Grace"}


def test_a_viewer_may_look(users: Shop, address: str) -> None:
    with Client(address, "viewer") as client:
        viewer = Shop(client, users.data)
        grid = opened(viewer)
        assert len(window(viewer, grid)["rows"]) == 2
        client.call("DELETE", f"/v1/projects/shop/grid/{grid['grid']}")
        with pytest.raises(Refused, match="closed"):
            window(viewer, grid)


@pytest.mark.parametrize(
    ("filter", "wanted"),
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
def test_a_filter_leaves_rows_whose_value_fits(shop: Shop, filter: list[Any], wanted: list[str]) -> None:
    types = {"name": "text", "age": "integer", "note": "text", "alive": "boolean", "born": "timestamp"}
    columns = [{"name": name, "type": type} for name, type in types.items()]
    shop.change({"op": "create-table", "table": "users", "columns": columns})
    shop.query(
        "insert into users values ('Ada', 36, null, 0, null), ('Grace', 85, '', null,"
        " '1906-12-09T00:00:00.000Z'), ('100%', 100, 'x', 1, null), ('Nul', null, 'y', null, null)",
        write=True,
    )
    asked = [{"column": column, "op": op, "value": value} for column, op, value in filter]
    assert names(shop, filter=asked) == wanted


def test_a_search_looks_into_every_column(users: Shop) -> None:
    assert names(users, search="gra") == ["Grace"]
    assert names(users, search="2", filter=[{"column": "id", "op": "=", "value": 2}]) == ["Grace"]
    assert names(users, search="nobody") == []


def test_a_filter_that_no_value_can_fit_is_refused(users: Shop) -> None:
    error = refused(users, filter=[{"column": "id", "op": "<", "value": "many"}])
    assert error.code == "filter" and "'many' is no whole number" in error.message
    assert "integer" in error.hint
    assert refused(users, filter=[{"column": "id", "op": "contains", "value": [1]}]).code == "filter"
    assert refused(users, filter=[{"column": "id", "op": "~", "value": "x"}]).code == "invalid"


def test_cells_say_exactly_what_is_stored(shop: Shop) -> None:
    types = ["integer", "real", "text", "boolean", "timestamp", "json", "blob"]
    columns = [{"name": type, "type": type} for type in types]
    shop.change({"op": "create-table", "table": "t", "columns": columns})
    shop.query(
        "insert into t values (9223372036854775807, 9e999, 'nul ' || char(0), 1, '2026-01-02T03:04:05.678Z',"
        " '{\"a\":  1.0}', x'00ff')",
        write=True,
    )
    (row,) = window(shop, opened(shop, "t"))["rows"]
    assert row == [
        2**63 - 1,
        float("inf"),
        "nul \0",
        True,
        "2026-01-02T03:04:05.678Z",
        '{"a":  1.0}',
        {"base64": "AP8="},
    ]


def test_a_long_cell_is_cut_and_had_whole(shop: Shop) -> None:
    shop.query("create table t (k text primary key not null, a text, b blob)", write=True)
    text, blob = "ü" * 3_000_000, b"\xff" * 5000
    connection = open_owner(shop.data / "tables" / "tables.db")
    connection.execute("insert into t values ('x', ?, ?)", (text, blob))
    connection.close()
    grid = opened(shop, "t")
    (row,) = window(shop, grid)["rows"]
    assert row[1] == {"cut": 6_000_000, "text": "ü" * 512}
    assert row[2]["cut"] == 5000 and len(base64.b64decode(row[2]["base64"])) == 1024
    path = f"grid/{grid['grid']}/cell"
    assert shop.get(path, key='["x"]', column="a") == {"value": text}
    assert base64.b64decode(shop.get(path, key='["x"]', column="b")["value"]["base64"]) == blob
    with pytest.raises(Refused) as refused:
        shop.get(path, key='["y"]', column="a")
    assert refused.value.code == "row-gone"
    for key in ("x", "[]", "{}", '["x", 1]'):
        with pytest.raises(Refused, match="key"):
            shop.get(path, key=key, column="a")


def test_text_that_is_not_utf_8_is_shown_as_its_bytes(users: Shop) -> None:
    connection = open_owner(users.data / "tables" / "tables.db")
    connection.execute("update users set name = cast(x'ff41' as text) where id = 2")
    connection.close()
    grid = opened(users)
    assert [row[1] for row in window(users, grid)["rows"]] == ["Ada", {"base64": "/0E="}]
    assert users.get(f"grid/{grid['grid']}/cell", key="[2]", column="name")["value"] == {"base64": "/0E="}


def test_rows_that_others_write_are_seen_after_a_refresh_and_told_before(users: Shop) -> None:
    grid = opened(users, sort=[{"column": "name"}])
    path = f"grid/{grid['grid']}"
    before = window(users, grid)
    asked = {
        "rows": [
            {"key": key, "version": version}
            for key, version in zip(before["keys"], before["versions"], strict=True)
        ]
    }
    same = {"state": "same", "at": 0}, {"state": "same", "at": 1}
    assert users.get(path) == {"count": 2, "stale": False}
    assert users.post(f"{path}/refresh", asked) == {"count": 2, "new": 0, "rows": [*same]}
    users.query("insert into users (name) values ('Aaron'), ('Zoe')", write=True)
    users.query("update users set joined = null where id = 2", write=True)
    assert users.get(path) == {"count": 2, "stale": True}
    after = window(users, grid)
    assert after["stale"] and after["keys"] == before["keys"] and after["rows"][1][2] is None
    found = users.post(f"{path}/refresh", asked)
    assert found == {
        "count": 4,
        "new": 2,
        "rows": [{"state": "same", "at": 1}, {"state": "changed", "at": 2}],
    }
    assert [row[1] for row in window(users, grid)["rows"]] == ["Aaron", "Ada", "Grace", "Zoe"]
    users.query("delete from users where id = 1", write=True)
    gone = window(users, grid)
    assert gone["rows"][1] is None and gone["keys"][1] is None and gone["stale"]
    assert users.post(f"{path}/refresh", asked)["rows"][0] == {"state": "gone", "at": None}


def test_a_refresh_tells_about_as_many_rows_as_a_window_has(shop: Shop) -> None:
    many(shop, 1200)
    grid = opened(shop, "many", sort=[{"column": "note"}])
    shown = window(shop, grid, 200, 1000)
    shop.query("delete from many where note = '0'", write=True)
    pairs = zip(shown["keys"], shown["versions"], strict=True)
    asked = [{"key": key, "version": version} for key, version in pairs]
    found = shop.post(f"grid/{grid['grid']}/refresh", {"rows": asked})
    now = [row[0] for row in window(shop, grid, 0, 1000)["rows"]] + [
        row[0] for row in window(shop, grid, 1000, 1000)["rows"]
    ]
    for (key,), became in zip(shown["keys"], found["rows"], strict=True):
        there = key in now
        assert became == {"state": "same" if there else "gone", "at": now.index(key) if there else None}


def test_a_row_that_a_filter_hides_after_a_change_has_no_place(users: Shop) -> None:
    grid = opened(users, filter=[{"column": "name", "op": "starts", "value": "A"}])
    users.query("update users set name = 'Zoe' where id = 1", write=True)
    found = users.post(f"grid/{grid['grid']}/refresh", {"rows": [{"key": [1], "version": ""}]})
    assert found == {"count": 0, "new": 0, "rows": [{"state": "changed", "at": None}]}


def test_views_tables_without_a_key_and_without_numbers_are_shown(shop: Shop) -> None:
    shop.query("create table t (a text, b integer, rowid text, primary key (b, a)) without rowid", write=True)
    shop.query("insert into t values ('x', 2, 'p'), ('y', 1, 'q')", write=True)
    shop.query("create view v as select rowid, a || b as ab from t", write=True)
    shop.query("create table log (line text)", write=True)
    shop.query("insert into log values ('one'), ('two')", write=True)
    grid = opened(shop, "t")
    shown = window(shop, grid)
    assert (grid["key"], shown["keys"]) == (["b", "a"], [[1, "y"], [2, "x"]])
    asked = {"rows": [{"key": [2, "x"], "version": shown["versions"][1]}]}
    shop.query("insert into t values ('a', 1, 'r')", write=True)
    found = shop.post(f"grid/{grid['grid']}/refresh", asked)
    assert found == {"count": 3, "new": None, "rows": [{"state": "same", "at": 2}]}
    grid = opened(shop, "v", sort=[{"column": "ab", "descending": True}])
    assert not grid["editable"]
    assert window(shop, grid)["rows"] == [["q", "y1"], ["p", "x2"], ["r", "a1"]]
    assert shop.get(f"grid/{grid['grid']}/cell", key="[2]", column="ab") == {"value": "x2"}
    grid = opened(shop, "log")
    assert (window(shop, grid)["keys"], grid["key"]) == ([[1], [2]], [])
    assert shop.get(f"grid/{grid['grid']}/cell", key="[2]", column="line") == {"value": "two"}


def test_a_table_that_is_dropped_or_altered_while_it_is_shown_is_told(users: Shop) -> None:
    grid = opened(users)
    users.change({"op": "set-note", "table": "users", "note": "other"})
    users.change({"op": "create-index", "table": "users", "columns": ["joined"]})
    users.change({"op": "create-table", "table": "more", "columns": [{"name": "a", "type": "text"}]})
    assert len(window(users, grid)["rows"]) == 2
    users.change({"op": "add-column", "table": "users", "column": {"name": "age", "type": "integer"}})
    for call in (
        lambda: window(users, grid),
        lambda: users.get(f"grid/{grid['grid']}"),
        lambda: users.post(f"grid/{grid['grid']}/refresh", {}),
        lambda: users.get(f"grid/{grid['grid']}/cell", key="[1]", column="name"),
    ):
        with pytest.raises(Refused, match="was altered") as refused:
            call()
        assert refused.value.code == "changed"
    users.change({"op": "drop-table", "table": "users"})
    with pytest.raises(Refused) as refused:
        window(users, grid)
    assert refused.value.code == "gone"


def test_a_grid_writes_nothing_and_holds_up_nobody(users: Shop) -> None:
    file = users.data / "tables" / "tables.db"
    many(users, 5000)
    grid = opened(users, "many", sort=[{"column": "name"}])
    window(users, grid)
    connection = open_owner(file)
    connection.execute("delete from many where id < 100")
    busy, in_log, moved = connection.execute("pragma wal_checkpoint(truncate)").fetchall()[0]
    tables = connection.execute("select name from sqlite_schema where name like '_svc_sh%'").fetchall()
    connection.close()
    assert (busy, in_log, moved, tables) == (0, 0, 0, [])
    assert window(users, grid)["stale"]


def test_so_many_grids_are_open_at_once_and_no_more(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_OF_A_PROJECT", 3)
    kept = [opened(users) for _ in range(3)]
    error = refused(users)
    assert error.code == "unavailable" and "3 grids of this Project" in error.message
    assert "10 minutes" in error.hint
    users.client.call("DELETE", f"/v1/projects/shop/grid/{kept[0]['grid']}")
    assert opened(users)["count"] == 2
    assert len(window(users, kept[1])["rows"]) == 2


def test_a_grid_that_nobody_uses_is_closed(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_OF_A_PROJECT", 1)
    monkeypatch.setattr(grids, "IDLE_SECONDS", 0.0)
    grid = opened(users)
    with pytest.raises(Refused, match="closed"):
        while True:
            window(users, grid)
    assert opened(users)["count"] == 2


def test_what_takes_too_long_is_given_up(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "SECONDS", 0.2)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) as i from n"
    users.query(f"create view endless as {endless}", write=True)
    error = refused(users, "endless")
    assert error.code == "timeout" and "index" in error.hint
    assert opened(users)["count"] == 2


def test_a_refresh_that_fails_leaves_the_grid_as_it_was(users: Shop) -> None:
    grid = opened(users, sort=[{"column": "name", "descending": True}])
    users.query("insert into users (name) values ('Bob')", write=True)
    with pytest.raises(Refused, match="key of users has 1 values, not 2"):
        users.post(f"grid/{grid['grid']}/refresh", {"rows": [{"key": [1, 2]}]})
    assert [row[1] for row in window(users, grid)["rows"]] in (["Grace", "Ada"], ["Grace", "Bob", "Ada"])
    assert users.post(f"grid/{grid['grid']}/refresh", {})["count"] == 3
    assert [row[1] for row in window(users, grid)["rows"]] == ["Grace", "Bob", "Ada"]


def test_a_key_that_no_row_can_have_is_that_of_a_row_that_is_gone(users: Shop) -> None:
    grid = opened(users)
    keys: list[Any] = [2**70, "x", None, [1], {"base64": "AA=="}, 1.5]
    asked = {"rows": [{"key": [key]} for key in keys]}
    found = users.post(f"grid/{grid['grid']}/refresh", asked)["rows"]
    assert found == [{"state": "gone", "at": None}] * len(keys)


def test_rows_whose_numbers_have_no_name_are_found_by_their_key(shop: Shop) -> None:
    shop.query("create table t (k text primary key not null, rowid, oid, _rowid_)", write=True)
    shop.query("insert into t (k) values ('b'), ('a')", write=True)
    grid = opened(shop, "t")
    assert window(shop, grid)["keys"] == [["a"], ["b"]]
    shop.query("create table nameless (rowid, oid, _rowid_)", write=True)
    shop.query("insert into nameless values (7, 8, 9)", write=True)
    assert window(shop, opened(shop, "nameless"))["rows"] == [[7, 8, 9]]


def test_half_of_a_character_is_refused(users: Shop, address: str) -> None:
    half = "\ud800"
    opening: list[dict[str, Any]] = [{"search": half}]
    opening += [
        {"filter": [{"column": "name", "op": "contains", "value": half}]},
        {"filter": [{"column": "name", "op": "=", "value": half}]},
        {"filter": [{"column": half, "op": "=", "value": "x"}]},
    ]
    asked = [("grid", each) for each in opening] + [("rows", {"changes": [{"insert": {half: half}}]})]
    headers = {"authorization": "Bearer owner", "content-type": "application/json"}
    for route, body in asked:
        answer = httpx.post(
            f"{address}/v1/projects/shop/{route}",
            content=json.dumps({"table": "users", **body}),
            headers=headers,
        )
        assert answer.status_code == 422, answer.text


def test_an_order_that_takes_too_much_room_is_given_up(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "MOST_TEMPORARY", 64 << 10)
    many(users, 20_000)
    error = refused(users, "many", sort=[{"column": "name"}])
    assert error.code == "too-large" and "filter" in error.hint
    assert opened(users, "many")["count"] == 20_000


def test_a_grid_whose_client_leaves_before_it_is_open_is_given_up(users: Shop, address: str) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) as i from n"
    users.query(f"create view endless as {endless}", write=True)
    before = set(threading.enumerate())
    with Client(address, "owner", answer_seconds=0.3) as client, pytest.raises(SvcError):
        opened(Shop(client, users.data), "endless")
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("tables-grid"):
            thread.join(20)
            assert not thread.is_alive()
