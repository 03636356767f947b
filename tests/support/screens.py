"""Applications of the Console in tests: waiting for them, and their screen as text."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

SECONDS = 60.0
"""Time limit of a wait."""
OpenApp = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]


async def idle(pilot: Pilot[Any]) -> None:
    """Wait until key presses are handled and their requests are on the screen."""
    await pilot.pause()
    for worker in [*pilot.app.workers]:
        with suppress(WorkerCancelled):  # A newer one replaces it.
            await worker.wait()
    await pilot.pause()


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Wait until a condition of an application holds."""
    async with asyncio.timeout(SECONDS):
        while not holds():
            await pilot.pause(0.02)


def text(app: App[Any]) -> str:
    """Return the text of the screen without trailing blanks."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips()) + "\n"
