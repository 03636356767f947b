"""A screen with slow widgets and a worker that queries them."""

import asyncio
from contextlib import suppress

import pytest
from textual import work
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from screens.console_screen import StopWorkersFirst

pytestmark = pytest.mark.anyio
SECONDS = 0.1


class Last(Static):
    async def on_unmount(self) -> None:
        if isinstance(self.screen, Busy):
            self.screen.look_later()
        await asyncio.sleep(SECONDS)


class Busy(StopWorkersFirst, Screen[None]):
    def compose(self) -> ComposeResult:
        yield Static(id="sought")
        yield Last()

    def on_mount(self) -> None:
        self.run_worker(self._look())
        self.run_worker(self._finish())

    @work
    async def look_later(self) -> None:
        """Query a widget that is removed by then."""
        await asyncio.sleep(SECONDS / 10)
        self.query_one("#sought")

    async def _look(self) -> None:
        while True:
            self.query_one("#sought")
            await asyncio.sleep(SECONDS / 100)

    async def _finish(self) -> None:
        """Do the rest of the work after a lost cancellation."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        for _ in range(3):
            await asyncio.sleep(SECONDS / 10)
            self.query_one("#sought")


async def test_exit_with_running_worker_raises_no_error() -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        await app.push_screen(Busy())
        await pilot.pause()


async def test_dismiss_with_running_worker_raises_no_error() -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        await app.push_screen(Busy())
        await pilot.pause()
        await app.pop_screen()
        await pilot.pause(2 * SECONDS)
