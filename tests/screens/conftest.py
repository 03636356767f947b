"""Fixtures for screens as text, with a fixed size, theme and clock, and without animations."""

import difflib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from tests.support.screens import OpenApp, idle, text

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def open_app() -> OpenApp:
    @asynccontextmanager
    async def open_app(app: App[Any], size: tuple[int, int] = (60, 12)) -> AsyncIterator[Pilot[Any]]:
        app.animation_level = "none"
        app.theme = "textual-dark"
        async with app.run_test(size=size) as pilot:
            await idle(pilot)
            yield pilot

    return open_app


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare the screen with the file of the test. SVC_WRITE_SNAPSHOTS=1 writes the file."""
    file = SNAPSHOTS / f"{request.node.name}.txt"

    def compare(app: App[Any], shown: Callable[[str], str] = str) -> None:
        screen_text = shown(text(app))
        if os.environ.get("SVC_WRITE_SNAPSHOTS"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(screen_text, encoding="utf-8")
        stored = file.read_text(encoding="utf-8") if file.exists() else ""
        difference = "\n".join(
            difflib.unified_diff(stored.splitlines(), screen_text.splitlines(), lineterm="")
        )
        assert screen_text == stored, f"{file.name} shows something else:\n{difference}"

    return compare
