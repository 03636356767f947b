"""The Console application in tests, over an embedded engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.http.sockets import bind
from svc_tui.console.app import Console
from svc_tui.console.engine import EmbeddedEngine
from svc_tui.console.start import LoginActions, UserFile


def write_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a project with one static resource, and return its folder."""
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "my shop ü"
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello")
    (folder / "svc.toml").write_text(
        '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    return folder


@asynccontextmanager
async def opened(
    folder: Path,
    keys: dict[str, str] | None = None,
    size: tuple[int, int] = (100, 30),
    look: UserFile | None = None,
) -> AsyncIterator[tuple[Console, Pilot[None], EmbeddedEngine]]:
    """Run the Console of a project until the block ends."""
    attachment = EmbeddedEngine(folder, "shop", bind("localhost", 0))
    app = Console(attachment, LoginActions(), keymap=keys, theme_preference=look)
    app.animation_level = "none"
    try:
        async with app.run_test(size=size) as pilot:
            yield app, pilot, attachment
    finally:
        await asyncio.to_thread(attachment.stop)
