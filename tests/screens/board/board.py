"""The Board of a real project in development, driven by a test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from screens.board.layout import Hit
from screens.board.screen import BoardScreen
from screens.project_client import ProjectClient
from tests.screens.dev_project import Console, Driven, Shop
from tests.support.screens import OpenApp, idle


class Board(Driven):
    """The Board, driven by a test."""

    def __init__(self, pilot: Pilot[Any], screen: BoardScreen) -> None:
        super().__init__(pilot)
        self.screen = screen


async def board(
    open_app: OpenApp,
    shop_or_client: Shop | ProjectClient,
    test: Callable[[Board], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> None:
    """Run a test on an open Board."""
    link = shop_or_client if isinstance(shop_or_client, ProjectClient) else shop_or_client.link()
    link.reconnect()
    screen = BoardScreen(link, **options)
    try:
        async with open_app(Console(screen), size) as pilot:
            ui = Board(pilot, screen)
            await ui.until(lambda: screen.canvas.selected is not None)
            await idle(pilot)
            await test(ui)
            await pilot.app.push_screen(Screen())  # Stop further requests.
            await idle(pilot)
    finally:
        link.disconnect()


def run(open_app: OpenApp, shop: Shop, test: Any, **options: Any) -> None:
    """Run a test on the Board of a project."""
    asyncio.run(board(open_app, shop, test, **options))


def select(ui: Board, kind: Any, key: str) -> None:
    """Select an item of the diagram."""
    ui.screen.canvas.select(Hit(kind, key))
