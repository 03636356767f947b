"""The last actions of the Console: calls that change something, and messages. Does not import Textual."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line, Tone
from svc_tui.client import SvcError
from svc_tui.terminal.units import clock, duration

MAX_ACTIONS = 1000
"""Maximum number of actions; the oldest are dropped."""
_READS = ("/grid", "/import/preview", "/logs", "/manifest/plan")
"""Beginnings of paths that change nothing, whatever the method."""


@dataclass(frozen=True, slots=True)
class _LoggedAction:
    time_ns: int
    text: str
    tone: Tone


class ActivityLog:
    """The last actions. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._actions: deque[_LoggedAction] = deque(maxlen=MAX_ACTIONS)

    def add(self, text: str, tone: Tone = "") -> None:
        """Add a message."""
        self._actions.append(_LoggedAction(time.time_ns(), text, tone))

    @contextmanager
    def call(self, method: str, path: str, body: Any) -> Iterator[None]:
        """Add the call that the block makes, unless it only reads."""
        start = time.perf_counter_ns()
        try:
            yield
        except SvcError as error:
            if _changes(method, path, body):
                self.add(f"{method} {path}  {error.message}", "bad")
            raise
        if _changes(method, path, body):
            self.add(f"{method} {path}  {duration(time.perf_counter_ns() - start)}", "notice")

    def lines(self) -> list[Line]:
        """Return the actions, newest first."""
        return [
            [
                (f"{clock(action.time_ns)}  ", "dim"),
                (sanitize(" · ".join(action.text.splitlines())), action.tone),
            ]
            for action in reversed(tuple(self._actions))
        ]


def _changes(method: str, path: str, body: Any) -> bool:
    if method == "GET" or path.startswith(_READS):
        return False
    return path != "/sql" or (isinstance(body, Mapping) and bool(body.get("write")))
