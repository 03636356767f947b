"""Helpers that open and read grids over the control API."""

from typing import Any

import pytest

from svc_tui.client import ApiError
from tests.doors.tables.console.shop import Shop


def open_grid(shop: Shop, table: str = "users", **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = shop.post("grid", {"table": table, **more})
    return result


def window(shop: Shop, grid: dict[str, Any], start: int = 0, n: int = 100) -> dict[str, Any]:
    result: dict[str, Any] = shop.get(f"grid/{grid['grid']}/rows", start=start, n=n)
    return result


def refused_grid(shop: Shop, table: str = "users", **more: Any) -> ApiError:
    with pytest.raises(ApiError) as exc_info:
        open_grid(shop, table, **more)
    return exc_info.value


def create_many_rows(shop: Shop, count: int) -> None:
    columns = [
        {"name": "id", "type": "integer", "primary_key": True},
        {"name": "name", "type": "text"},
        {"name": "note", "type": "text"},
    ]
    shop.change({"op": "create-table", "table": "many", "columns": columns})
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {count})"
    shop.query(f"insert into many {numbers} select i, 'n' || (i * 7919 % 1009), i % 7 from n", write=True)
