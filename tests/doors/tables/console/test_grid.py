"""A table in a grid over the control API: any window of any order, without reading what is before it."""

import json
from typing import Any

import pytest

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
