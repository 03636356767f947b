"""Keys one after another, each once what the one before it did is done.

The toolkit gives letters to what has the focus at once and looks for bindings a few steps later. Of keys that
come together, as they do over a slow line, `x`, `backspace`, `y` would become `x`, and letters behind a key
that opens a line would be lost or do what they do elsewhere. Owns the keys that wait.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from textual.app import App, ScreenStackError
from textual.dom import DOMNode
from textual.events import Event

DRAIN_TIMEOUT_SECONDS = 0.2
"""How long a key waits for a part of the screen that does not answer: it must not hold up `ctrl+c`."""


class KeySequencer:
    """The keys of one application, one at a time."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._current: Event | None = None
        self._waiting: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None

    def accepts(self, event: Event) -> bool:
        """Say whether a key or paste is to be handled now; what is not comes again by itself."""
        if self._current is None or self._current is event:
            self._current = event
            self._task = asyncio.create_task(self._follow(self._app.focused or self._app.screen))
            return True
        self._waiting.append(event)
        return False

    async def _follow(self, target: DOMNode) -> None:
        """Wait until a key has gone its way, from what has the focus up to the app; then give the next."""
        for node in (self._app, *target.ancestors_with_self, self._app):
            await _drain(node)
        with suppress(ScreenStackError):  # the key ended the application
            await _drain(self._app.screen)  # which the key may have opened
        self._current = self._waiting.popleft() if self._waiting else None
        if self._current is not None:
            self._app.post_message(self._current)


async def _drain(node: DOMNode) -> None:
    """Wait until a part of the screen has handled what it was told so far."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
                await done.wait()
