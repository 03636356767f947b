"""The Tables tab of a project, driven by a test, and the project beside it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, TextArea

from engine.control.local_server import serve_local
from screens.project_client import ConnectionInfo, ProjectClient
from screens.tables.screen import TablesScreen
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from svc_tui.composition import project_api
from tests.screens.dev_project import Console, Driven
from tests.support.screens import idle

SECONDS = 60.0


class Shop:
    """The project `shop`, accessed beside the Console."""

    client: Client
    token: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.client.call(method, f"/v1/projects/shop{path}", body)

    def sql(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        body = {"sql": sql, "params": list(params), "write": not sql.lower().startswith("select")}
        result: list[dict[str, Any]] = self.call("POST", "/sql", body)["rows"]
        return result

    def link(self) -> ProjectClient:
        """Return a link that uses the current address of the API."""
        return ProjectClient(
            ConnectionInfo("shop", "dev", "http://localhost:3000"),
            lambda: Client(self.client.url, self.token, SECONDS),
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the API, on a new port each time."""
        subjects = project_api("shop", self.folder)
        with run_in_background(
            lambda _: serve_local(self.folder, subjects, announce=False), "control"
        ) as presence:
            self.token = presence.token
            with Client(presence.url, presence.token, SECONDS) as self.client:
                yield


class Tables(Driven):
    """The screen, driven by a test."""

    def __init__(self, pilot: Pilot[Any], screen: TablesScreen) -> None:
        super().__init__(pilot)
        self.screen = screen

    @property
    def notifications(self) -> str:
        """All notifications."""
        return "\n".join(self.app.messages)

    @property
    def foot(self) -> str:
        """The keys that the last line shows."""
        return self.text.splitlines()[-1]

    async def type(self, words: str) -> None:
        """Insert text into the focused widget, like a paste."""
        focused = self.app.focused
        if isinstance(focused, TextArea):
            focused.insert(words)
        else:
            assert isinstance(focused, Input)
            focused.insert_text_at_cursor(words)
        await idle(self.pilot)

    async def write(self, words: str) -> None:
        """Replace the text of the open input and submit it."""
        focused = self.app.focused
        assert isinstance(focused, Input)
        focused.value = words
        await self.press("enter")


@asynccontextmanager
async def tables(shop: Shop, size: tuple[int, int] = (80, 24), *, wait: bool = True) -> AsyncIterator[Tables]:
    """Open the Tables tab, and wait until it shows something unless `wait` is False."""
    link = shop.link()
    await asyncio.to_thread(link.reconnect)
    screen = TablesScreen(link)
    app = Console(screen)
    app.animation_level = "none"
    app.theme = "textual-dark"
    try:
        async with app.run_test(size=size) as pilot:
            ui = Tables(pilot, screen)
            if wait:
                await ui.until(lambda: "▾" in ui.text or "no tables" in ui.text)
                await idle(pilot)
            yield ui
            await app.push_screen(Screen())  # Stop further requests.
            await idle(pilot)
    finally:
        link.shut_down()
