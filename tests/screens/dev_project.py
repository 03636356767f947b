"""A screen over a real project in development: engine on a thread, control API on a socket."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from textual.pilot import Pilot

from engine.manifest.load import load
from engine.timeline.record import parse_utc
from screens.console_screen import ConsoleScreen
from screens.project_client import ConnectionInfo, ProjectClient
from screens.terminal_app import TerminalApp
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control import developing
from tests.support import waiting
from tests.support.screens import idle, text, until

FRAME = re.compile("[▌│▊▎]")
SHOP = """\
[project]
name = "shop"
front = "web"
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


class Shop:
    """A project in development: its folder, public port and control API."""

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
        """Wait until a path returns this body."""
        waiting.until(lambda: words in self.get(path).text)

    def built_since(self, time_ns: int) -> set[str]:
        """Return the resources whose builds have been recorded since a time."""
        url = f"{self.url}/v1/projects/shop/logs/window"
        answer = httpx.get(url, params={"n": 100}, headers={"authorization": f"Bearer {self.token}"})
        records = answer.raise_for_status().json()["records"]
        platform = (each for each in records if each["kind"] == "platform")
        return {each["resource"] for each in platform if parse_utc(each["time"]) >= time_ns}

    def link(self) -> ProjectClient:
        place = ConnectionInfo("shop", "dev", "http://localhost:3000")
        return ProjectClient(place, lambda: Client(self.url, self.token, 60.0))


@contextmanager
def developed(root: Path, cache: Path) -> Iterator[Shop]:
    """Run a project. Its first builds are in the timeline, so all later records come from the test."""
    started_ns = time.time_ns()
    with run_in_background(lambda stop: developing.developed(root, stop, cache), "engine") as running:
        shop = Shop(root, running.port, running.presence.url, running.presence.token)
        resources = set(load(root).resources)
        waiting.until(lambda: shop.built_since(started_ns) == resources)
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


class Console(TerminalApp[None]):
    """An application with one screen; records the tabs that the screen opens."""

    def __init__(self, screen: ConsoleScreen) -> None:
        super().__init__()
        self._first = screen
        self.visits: list[tuple[str, ...]] = []
        self.messages: list[str] = []

    def notify(self, message: str, **options: Any) -> None:
        self.messages.append(message)
        super().notify(message, **options)

    def on_mount(self) -> None:
        self.push_screen(self._first)

    def on_console_screen_open_tab(self, event: ConsoleScreen.OpenTab) -> None:
        self.visits.append((event.tab, *event.words))


class Driven:
    """A screen driven by a test."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

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

    async def until(self, holds: Callable[[], bool]) -> None:
        await until(self.pilot, holds)

    def _has(self, word: str) -> bool:
        """Return whether the screen contains a text, possibly wrapped, as long paths are."""
        return word in self.text or word in " ".join(FRAME.sub(" ", self.text).split())

    async def shows(self, *words: str) -> None:
        try:
            await self.until(lambda: all(self._has(word) for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} not in\n{self.text}") from None

    async def hides(self, word: str) -> None:
        await self.until(lambda: word not in self.text)
