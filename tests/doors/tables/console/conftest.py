"""The control API of a project's tables, over its real listener and the real client."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doors.tables.api.routes import blueprint
from engine.control.access import ALL_PROJECTS, Principal, Role
from engine.control.app import create_app
from engine.control.projects import SingleProject
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control.served import served

ROLES: tuple[Role, ...] = ("viewer", "deployer", "owner")


class EveryRole:
    """An authority that accepts the name of a role as its token."""

    async def principal(self, token: str) -> Principal | None:
        return next((Principal(role, {ALL_PROJECTS: role}) for role in ROLES if role == token), None)


@contextmanager
def api(data: Path) -> Iterator[str]:
    """Serve the tables of the project `shop`; yield the address."""
    app = create_app(EveryRole(), [blueprint(SingleProject("shop", data))])
    with run_in_background(lambda stop: served(app, stop), "control") as address:
        yield address


class Shop:
    """The tables of the project, for a client of one role."""

    def __init__(self, client: Client, data: Path) -> None:
        self.client = client
        self.data = data

    def get(self, path: str, **params: Any) -> Any:
        return self.client.call("GET", f"/v1/projects/shop/{path}", params=params)

    def post(self, path: str, body: Any) -> Any:
        return self.client.call("POST", f"/v1/projects/shop/{path}", body)

    def change(self, *changes: dict[str, Any]) -> Any:
        return self.post("schema", {"changes": changes})

    def query(self, sql: str, *params: Any, **more: Any) -> Any:
        return self.post("sql", {"sql": sql, "params": params, **more})

    def load(self, text: bytes, format: str = "csv", **params: Any) -> list[Any]:
        pieces = (text[at : at + 60_000] for at in range(0, len(text), 60_000))
        path = "/v1/projects/shop/import"
        return list(self.client.lines("POST", path, params={"format": format, **params}, content=pieces))

    def save(self, format: str, *tables: str) -> bytes:
        params = {"format": format, "table": list(tables)}
        with self.client.download("/v1/projects/shop/export", params=params) as pieces:
            return b"".join(pieces)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with api(tmp_path) as address:
        yield address


@pytest.fixture
def shop(address: str, tmp_path: Path) -> Iterator[Shop]:
    """The owner's view of a project without tables."""
    with Client(address, "owner") as client:
        yield Shop(client, tmp_path)


USERS = {
    "op": "create-table",
    "table": "users",
    "columns": [
        {"name": "id", "type": "integer", "primary_key": True},
        {"name": "name", "type": "text", "nullable": False, "unique": True, "note": "as they are called"},
        {"name": "joined", "type": "timestamp", "default": "now()"},
    ],
    "note": "who is here",
}


@pytest.fixture
def users(shop: Shop) -> Shop:
    """The project of `shop` with a table of two users."""
    shop.change(USERS)
    shop.query("insert into users (name) values ($1), ($2)", "Ada", "Grace", write=True)
    return shop
