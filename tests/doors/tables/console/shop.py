"""The tables of the project `shop` over the control API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doors.tables.api.routes import blueprint
from engine.control.app import create_app
from engine.control.projects import SingleProject
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control.served import served
from tests.support.roles import EveryRole

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n)"


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

    def migrate(self, sql: str, name: str = "0001-tables.sql") -> Any:
        return self.post("migrations", {"files": [{"name": name, "sql": sql}]})

    def load(self, text: bytes, format: str = "csv", **params: Any) -> list[Any]:
        pieces = (text[at : at + 60_000] for at in range(0, len(text), 60_000))
        path = "/v1/projects/shop/import"
        return list(self.client.lines("POST", path, params={"format": format, **params}, content=pieces))

    def save(self, format: str, *tables: str) -> bytes:
        params = {"format": format, "table": list(tables)}
        with self.client.download("/v1/projects/shop/export", params=params) as pieces:
            return b"".join(pieces)


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
