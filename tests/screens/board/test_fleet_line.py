"""The line about the fleet on the Board: polling, and keys."""

from typing import Any

import pytest

from screens.board.canvas import FleetLine
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client
from tests.screens.board.board import Board, run
from tests.screens.board.test_fleet import node
from tests.screens.dev_project import Shop
from tests.support.screens import OpenApp

pytestmark = pytest.mark.slow


class FleetClient(ProjectClient):
    """A client of a project that a fleet serves."""

    def __init__(self, shop: Shop) -> None:
        place = ConnectionInfo("shop", "service", "http://localhost:3000")
        super().__init__(place, lambda: Client(shop.url, shop.token, 60.0))
        self.document: dict[str, Any] | None = None

    async def call(self, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        if path == "/fleet":
            return {"fleet": self.document}
        return await super().call(method, path, *arguments, **options)


def test_line_opens_the_nodes_and_returns_to_the_diagram(open_app: OpenApp, shop: Shop) -> None:
    client: Any = FleetClient(shop)

    async def test(ui: Board) -> None:
        line = ui.screen.query_one(FleetLine)
        assert not line.display
        client.document = {"fleet": "9f3a", "serving": True, "quorum": True, "needed": 3}
        client.document |= {"nodes": [node(1), node(2)]}
        await ui.until(lambda: line.display)
        await ui.shows("fleet  ● n1 here  ● n2  quorum yes, tables current")
        line.focus()
        await ui.press("enter")
        await ui.shows("n2-4f2a1b", "most keepers answer")
        client.document["nodes"] = [node(1), node(2, present=False)]
        await ui.shows("away since")
        await ui.press("enter")
        assert "most keepers answer" not in ui.text
        await ui.press("k")
        assert ui.screen.canvas.has_focus
        await ui.pilot.click(FleetLine)
        await ui.shows("most keepers answer")

    run(open_app, client, test, size=(100, 40))
