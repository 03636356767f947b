"""Keys that wait for the rows that they act on, while a table is opened or its rows are loaded."""

from collections.abc import Set

from textual.events import Key
from textual.screen import Screen
from textual.timer import Timer

TIMEOUT_SECONDS = 2.0
"""Maximum wait. After it, the keys are dropped with a message."""


class HeldKeys:
    """The keys of one screen that wait. After the first one, every other key waits too."""

    def __init__(self, screen: Screen[None], keys: Set[str]) -> None:
        """`keys` act on rows; only they start to wait."""
        self._screen = screen
        self._keys = keys
        self._waiting: list[Key] = []
        self._timer: Timer | None = None

    def hold(self, event: Key, *, loading: bool) -> None:
        """Queue a key while rows are loading, and stop its event."""
        if self._waiting or (loading and event.key in self._keys):
            if self._timer is None:
                self._timer = self._screen.set_timer(TIMEOUT_SECONDS, self._drop)
            self._waiting.append(event)
            event.stop()

    def release(self) -> None:
        """Handle the waiting keys in their order."""
        for event in self._take():
            key = Key(event.key, event.character)
            if (sender := event._sender) is not None:  # Events of a screen do not bubble beyond it.
                key.set_sender(sender)
            self._screen.app.post_message(key)

    def _drop(self) -> None:
        if self._take():
            self._screen.notify("the rows are still loading; press the key again", severity="warning")

    def _take(self) -> list[Key]:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        return waiting
