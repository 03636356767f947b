"""Lifecycle of grids: refresh after concurrent writes, altered tables, limits and timeouts."""

import threading
from typing import Any

import pytest

from doors.tables.api import grid_routes
from doors.tables.grid import grid as grid_of_rows
from doors.tables.sqlite.connections import open_owner
from engine.errors import SvcError
from svc_tui.client import ApiError, Client
from tests.doors.tables.console.grids import create_many_rows, open_grid, refused_grid, window
from tests.doors.tables.console.shop import Shop


def test_concurrent_writes_mark_grid_stale_until_refresh(users: Shop) -> None:
    grid = open_grid(users, sort=[{"column": "name"}])
    path = f"grid/{grid['grid']}"
    before = window(users, grid)
    request = {
        "rows": [
            {"key": key, "version": version}
            for key, version in zip(before["keys"], before["versions"], strict=True)
        ]
    }
    same = {"state": "unchanged", "position": 0}, {"state": "unchanged", "position": 1}
    assert users.get(path) == {"count": 2, "stale": False}
    assert users.post(f"{path}/refresh", request) == {"count": 2, "new": 0, "rows": [*same]}
    users.query("insert into users (name) values ('Aaron'), ('Zoe')", write=True)
    users.query("update users set joined = null where id = 2", write=True)
    assert users.get(path) == {"count": 2, "stale": True}
    after = window(users, grid)
    assert after["stale"] and after["keys"] == before["keys"] and after["rows"][1][2] is None
    result = users.post(f"{path}/refresh", request)
    assert result == {
        "count": 4,
        "new": 2,
        "rows": [{"state": "unchanged", "position": 1}, {"state": "changed", "position": 2}],
    }
    assert [row[1] for row in window(users, grid)["rows"]] == ["Aaron", "Ada", "Grace", "Zoe"]
    users.query("delete from users where id = 1", write=True)
    deleted = window(users, grid)
    assert deleted["rows"][1] is None and deleted["keys"][1] is None and deleted["stale"]
    assert users.post(f"{path}/refresh", request)["rows"][0] == {"state": "deleted", "position": None}


def test_refresh_reports_state_of_full_window(shop: Shop) -> None:
    create_many_rows(shop, 1200)
    grid = open_grid(shop, "many", sort=[{"column": "note"}])
    shown = window(shop, grid, 200, 1000)
    shop.query("delete from many where note = '0'", write=True)
    pairs = zip(shown["keys"], shown["versions"], strict=True)
    request = [{"key": key, "version": version} for key, version in pairs]
    result = shop.post(f"grid/{grid['grid']}/refresh", {"rows": request})
    now = [row[0] for row in window(shop, grid, 0, 1000)["rows"]] + [
        row[0] for row in window(shop, grid, 1000, 1000)["rows"]
    ]
    for (key,), became in zip(shown["keys"], result["rows"], strict=True):
        exists = key in now
        assert became == {
            "state": "unchanged" if exists else "deleted",
            "position": now.index(key) if exists else None,
        }


def test_refresh_of_filtered_out_row_has_no_position(users: Shop) -> None:
    grid = open_grid(users, filter=[{"column": "name", "op": "starts", "value": "A"}])
    users.query("update users set name = 'Zoe' where id = 1", write=True)
    result = users.post(f"grid/{grid['grid']}/refresh", {"rows": [{"key": [1], "version": ""}]})
    assert result == {"count": 0, "new": 0, "rows": [{"state": "changed", "position": None}]}


def test_grid_of_altered_or_dropped_table_is_refused(users: Shop) -> None:
    grid = open_grid(users)
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
        with pytest.raises(ApiError, match="was altered") as exc_info:
            call()
        assert exc_info.value.code == "changed"
    users.change({"op": "drop-table", "table": "users"})
    with pytest.raises(ApiError) as exc_info:
        window(users, grid)
    assert exc_info.value.code == "gone"


def test_open_grid_writes_nothing_and_does_not_block_checkpoint(users: Shop) -> None:
    file = users.data / "tables" / "tables.db"
    create_many_rows(users, 5000)
    grid = open_grid(users, "many", sort=[{"column": "name"}])
    window(users, grid)
    connection = open_owner(file)
    connection.execute("delete from many where id < 100")
    busy, in_log, moved = connection.execute("pragma wal_checkpoint(truncate)").fetchall()[0]
    tables = connection.execute("select name from sqlite_schema where name like '_svc_sh%'").fetchall()
    connection.close()
    assert (busy, in_log, moved, tables) == (0, 0, 0, [])
    assert window(users, grid)["stale"]


def test_open_grids_are_limited_per_project(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_routes, "MAX_OPEN_PER_PROJECT", 3)
    stored = [open_grid(users) for _ in range(3)]
    error = refused_grid(users)
    assert error.code == "unavailable" and "3 grids of this project" in error.message
    assert "10 minutes" in error.hint
    users.client.call("DELETE", f"/v1/projects/shop/grid/{stored[0]['grid']}")
    assert open_grid(users)["count"] == 2
    assert len(window(users, stored[1])["rows"]) == 2


def test_idle_grid_is_closed(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_routes, "MAX_OPEN_PER_PROJECT", 1)
    monkeypatch.setattr(grid_routes, "IDLE_SECONDS", 0.0)
    grid = open_grid(users)
    with pytest.raises(ApiError, match="closed"):
        while True:
            window(users, grid)
    assert open_grid(users)["count"] == 2


def test_grid_of_endless_view_times_out(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "TIMEOUT_SECONDS", 0.2)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) as i from n"
    users.query(f"create view endless as {endless}", write=True)
    error = refused_grid(users, "endless")
    assert error.code == "timeout" and "index" in error.hint
    assert open_grid(users)["count"] == 2


def test_failed_refresh_leaves_grid_usable(users: Shop) -> None:
    grid = open_grid(users, sort=[{"column": "name", "descending": True}])
    users.query("insert into users (name) values ('Bob')", write=True)
    with pytest.raises(ApiError, match="key of users has 1 values, not 2"):
        users.post(f"grid/{grid['grid']}/refresh", {"rows": [{"key": [1, 2]}]})
    assert [row[1] for row in window(users, grid)["rows"]] in (["Grace", "Ada"], ["Grace", "Bob", "Ada"])
    assert users.post(f"grid/{grid['grid']}/refresh", {})["count"] == 3
    assert [row[1] for row in window(users, grid)["rows"]] == ["Grace", "Bob", "Ada"]


def test_refresh_of_impossible_key_reports_gone(users: Shop) -> None:
    grid = open_grid(users)
    keys: list[Any] = [2**70, "x", None, [1], {"base64": "AA=="}, 1.5]
    request = {"rows": [{"key": [key]} for key in keys]}
    result = users.post(f"grid/{grid['grid']}/refresh", request)["rows"]
    assert result == [{"state": "deleted", "position": None}] * len(keys)


def test_sort_over_temporary_size_limit_is_refused(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "MAX_TEMPORARY_BYTES", 64 << 10)
    create_many_rows(users, 20_000)
    error = refused_grid(users, "many", sort=[{"column": "name"}])
    assert error.code == "too-large" and "filter" in error.hint
    assert open_grid(users, "many")["count"] == 20_000


def test_grids_of_a_project_share_temporary_space(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "MAX_GRIDS_BYTES", 2 << 20)
    create_many_rows(users, 20_000)
    grids = [open_grid(users, "many", sort=[{"column": "name"}])]
    with pytest.raises(ApiError) as exc_info:
        while len(grids) < 16:
            grids.append(open_grid(users, "many", sort=[{"column": "name"}]))
    assert exc_info.value.code == "too-large" and "close other grids" in exc_info.value.hint
    for grid in grids:
        users.client.call("DELETE", f"/v1/projects/shop/grid/{grid['grid']}")


def test_window_of_large_keys_is_refused(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_of_rows, "MAX_KEY_BYTES", 4096)
    users.query("create table named (name text primary key, age integer) strict, without rowid", write=True)
    users.query("insert into named values (hex(zeroblob(1000)), 1), (hex(zeroblob(2000)), 2)", write=True)
    grid = open_grid(users, "named")
    with pytest.raises(ApiError) as exc_info:
        window(users, grid)
    assert exc_info.value.code == "too-large" and "keys" in exc_info.value.message
    assert len(window(users, grid, n=1)["rows"]) == 1


def test_client_disconnect_while_opening_stops_grid_thread(users: Shop, address: str) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) as i from n"
    users.query(f"create view endless as {endless}", write=True)
    before = set(threading.enumerate())
    with Client(address, "owner", timeout_seconds=0.3) as client, pytest.raises(SvcError):
        open_grid(Shop(client, users.data), "endless")
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("tables-grid"):
            thread.join(60)
            assert not thread.is_alive()
