"""The Board of a real Project in development: its engine on a thread, its control API on a socket."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from engine.deploy.live import Built
from engine.errors import SvcError
from engine.listen import bind
from engine.manifest.load import load
from engine.timeline.feed import Timeline
from screens.board.screen import BoardScreen
from screens.console_screen import ConsoleScreen
from screens.link import Link, Place
from svc_tui.client import Client
from svc_tui.development import Settings, developing
from svc_tui.own_thread import on_thread
from tests.screens.conftest import Opened, idle, text

SHOP = """\
[project]
name = "shop"

# What people see.
[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/docs/*" = "docs" } # kept

[resource.docs]
lane = "static"
output = "site"

[resource.blog]
lane = "static"
public = true
output = "site"
"""


class Quiet:
    """A teller that nobody hears."""

    def progress(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, error: SvcError) -> None: ...

    def error(self, error: SvcError) -> None: ...

    def built(self, event: Built) -> None: ...


class Shop:
    """A Project in development: its folder, its public port, its control API."""

    def __init__(self, root: Path, port: int, url: str, token: str) -> None:
        self.root = root
        self.port = port
        self.url, self.token = url, token

    @property
    def manifest(self) -> str:
        return (self.root / "svc.toml").read_text()

    def write(self, manifest: str) -> None:
        (self.root / "svc.toml").write_text(manifest)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}")

    def answers(self, path: str, words: str) -> None:
        """Wait until this is what a path answers."""
        end = time.monotonic() + 30
        while words not in self.get(path).text:
            assert time.monotonic() < end
            time.sleep(0.02)

    def link(self) -> Link:
        place = Place("shop", "dev", "http://localhost:3000")
        return Link(place, lambda: Client(self.url, self.token, 60.0))


@contextmanager
def developed(root: Path, cache: Path) -> Iterator[Shop]:
    sockets = bind("localhost", 0)

    @asynccontextmanager
    async def serve(stop: asyncio.Event) -> AsyncIterator[Shop]:
        settings = Settings([sockets], cache, "dev")
        async with developing(load(root), settings, Timeline(), Quiet(), stop) as running:
            presence = await running.presence
            await running.live.ready()
            yield Shop(root, settings.port, presence.url, presence.token)

    with on_thread(serve, "engine") as shop:
        yield shop


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "site" / "docs").mkdir(parents=True)
    (root / "svc.toml").write_text(SHOP)
    (root / "site" / "index.html").write_text("one")
    (root / "site" / "docs" / "x").write_text("x")
    return root


@pytest.fixture
def shop(root: Path, tmp_path: Path) -> Iterator[Shop]:
    with developed(root, tmp_path / "cache") as shop:
        yield shop


class Console(App[None]):
    """One screen, and where it sends one."""

    def __init__(self, screen: ConsoleScreen) -> None:
        super().__init__()
        self._first = screen
        self.visits: list[tuple[str, ...]] = []

    def on_mount(self) -> None:
        self.push_screen(self._first)

    def on_console_screen_visit(self, event: ConsoleScreen.Visit) -> None:
        self.visits.append((event.tab, *event.words))


class Board:
    """The Board in the hands of a test."""

    def __init__(self, pilot: Pilot[Any], screen: BoardScreen) -> None:
        self.pilot = pilot
        self.screen = screen

    @property
    def app(self) -> Console:
        app = self.pilot.app
        assert isinstance(app, Console)
        return app

    @property
    def text(self) -> str:
        return text(self.app)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await idle(self.pilot)

    async def until(self, seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not seen():
                await self.pilot.pause(0.02)

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text)


async def board(
    opened: Opened,
    there: Shop | Link,
    test: Callable[[Board], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> None:
    """Open the Board and test it."""
    link = there if isinstance(there, Link) else there.link()
    link.reconnect()
    screen = BoardScreen(link, **{"unicode": True, **options})
    try:
        async with opened(Console(screen), size) as pilot:
            shown = Board(pilot, screen)
            await shown.until(lambda: screen.canvas.picture is not None)
            await idle(pilot)
            await test(shown)
            await pilot.app.push_screen(Screen())  # so that nothing is asked any more
            await idle(pilot)
    finally:
        link.close()
