"""Key sequencer: handles each key after the previous one has taken effect.

Textual delivers letters to the focused widget at once, but resolves bindings several messages later. Keys
that arrive together, as over a slow connection, would be reordered: `x`, `backspace`, `y` would become `x`.
Letters after a key that opens an input would be lost.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from textual.app import App, ScreenStackError
from textual.dom import DOMNode
from textual.events import Event

DRAIN_TIMEOUT_SECONDS = 0.2
"""Maximum wait for a widget that does not respond, so that it cannot block `ctrl+c`."""


class KeySequencer:
    """Serializes the key and paste events of one application."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._current: Event | None = None
        self._waiting: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None

    def accepts(self, event: Event) -> bool:
        """Return whether to handle an event now. Other events are queued and posted again later."""
        if self._current is None or self._current is event:
            self._current = event
            self._task = asyncio.create_task(self._follow(self._app.focused or self._app.screen))
            return True
        self._waiting.append(event)
        return False

    async def _follow(self, target: DOMNode) -> None:
        """Wait until an event was handled by the focused widget and its ancestors; then post the next one."""
        for node in (self._app, *target.ancestors_with_self, self._app):
            await _drain(node)
        with suppress(ScreenStackError):  # The key has closed the application.
            await _drain(self._app.screen)  # The key may have opened this screen.
        self._current = self._waiting.popleft() if self._waiting else None
        if self._current is not None:
            self._app.post_message(self._current)


async def _drain(node: DOMNode) -> None:
    """Wait until a widget has processed its message queue."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
                await done.wait()
