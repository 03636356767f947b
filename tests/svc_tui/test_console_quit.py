"""Quitting the Console with edits that are not applied."""

import asyncio
import gc
from pathlib import Path

import pytest

from screens.console_screen import ConsoleScreen
from screens.dialog import ConfirmDialog
from screens.tables.screen import APPLYING
from tests.support.screens import SECONDS, until
from tests.svc_tui.console_app import opened, write_project

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return write_project(tmp_path, monkeypatch)


async def test_quit_asks_only_with_pending_edits(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        screen = app.screen
        assert isinstance(screen, ConsoleScreen)
        screen.pending = 2
        await pilot.press("q")
        assert isinstance(app.screen, ConfirmDialog)
        await pilot.press("q", "n")
        assert app.screen is screen and app.is_running
        await pilot.press("ctrl+q", "y")
        await until(pilot, lambda: not app.is_running)
    async with opened(project) as (app, pilot, _):
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q"])
async def test_second_quit_key_answers_the_question(project: Path, key: str) -> None:
    async with opened(project) as (app, pilot, _):
        screen = app.screen
        assert isinstance(screen, ConsoleScreen)
        screen.pending = 1
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("n", key)
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert app.is_running
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running)


async def test_quit_keys_while_edits_are_applied_ask_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("svc_tui.console.app.APPLY_SECONDS", SECONDS)
    async with opened(project) as (app, pilot, _):
        screen = app.screen
        assert isinstance(screen, ConsoleScreen)
        screen.pending, failed = 1, asyncio.Event()
        screen.run_worker(failed.wait(), group=APPLYING)
        await pilot.press("ctrl+c", "ctrl+c", "q")
        assert app.screen is screen
        failed.set()
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert app.is_running


async def test_question_at_quit_ends_once_slow_edits_are_applied(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("svc_tui.console.app.APPLY_SECONDS", 0.05)
    async with opened(project) as (app, pilot, _):
        screen = app.screen
        assert isinstance(screen, ConsoleScreen)
        screen.pending, applied = 1, asyncio.Event()

        async def apply() -> None:
            await applied.wait()
            screen.pending = 0

        screen.run_worker(apply(), group=APPLYING)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await asyncio.sleep(0.2)
        assert app.is_running
        applied.set()
        await until(pilot, lambda: not app.is_running)


async def test_work_that_is_canceled_before_it_begins_leaves_no_warning(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        await until(pilot, lambda: "● live" in str(app.screen.query_one("#where").render()))
        app.workers.cancel_all()
        await pilot.pause()
        app.screen._poll()  # type: ignore[attr-defined]
        app.workers.cancel_all()
        await pilot.pause()
        gc.collect()  # A coroutine that was never awaited warns here.
