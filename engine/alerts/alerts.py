"""The alerts of a service, and when a message about one is sent.

A message is sent when an alert begins and when it ends. An alert that lasts is repeated once a day. One that
ends and begins again is sent at most once an hour.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from engine.timeline.record import format_utc

MAX_TEXT = 2000
"""Maximum characters of a text, parts of which are of projects: receivers refuse large messages."""
AGAIN_SECONDS = 3600.0
"""Minimum time between two messages that an alert has begun."""
REPEAT_SECONDS = 24 * 3600.0
"""Time between two messages about an alert that lasts."""
Severity = Literal["warning", "error"]
Kind = Literal[
    "backup",
    "certificate",
    "deploy-failed",
    "disk",
    "failure-rate",
    "memory",
    "node-lost",
    "schedule",
    "test",
]


class Alert(BaseModel, frozen=True):
    """An alert of a project, or of the service if `project` is null. `until` is null while it lasts.

    `url` is the address of either.
    """

    kind: Kind
    project: str | None
    severity: Severity
    text: str
    since: str
    until: str | None = None
    url: str

    @property
    def title(self) -> str:
        """A line that names the kind and the project."""
        ended = " ended" if self.until else ""
        return f"svc: {self.kind}{ended}" + (f" ({self.project})" if self.project else "")


@dataclass(slots=True)
class _State:
    """An alert. `sent`: when a message that it has begun was sent; `announced`: one was since it began."""

    alert: Alert
    sent: float = -math.inf
    announced: bool = False


class Alerts:
    """The alerts of a service. Use on one event loop. Each has a kind, a project, and a subject as a node."""

    def __init__(
        self,
        send: Callable[[Alert], None],
        url_of: Callable[[str], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url_of` returns the address of a project, and of the service for the empty name."""
        self._send, self._url_of, self._clock = send, url_of, clock
        self._states: dict[tuple[Kind, str, str], _State] = {}

    def new(self, kind: Kind, project: str, text: str, severity: Severity) -> Alert:
        """Return an alert that begins now."""
        since, url = format_utc(time.time_ns()), self._url_of(project)
        return Alert(kind=kind, project=project or None, severity=severity, text=text, since=since, url=url)

    def begin(
        self, kind: Kind, project: str, text: str, *, subject: str = "", severity: Severity = "error"
    ) -> None:
        """Begin an alert, or continue it with a new text."""
        text = text[:MAX_TEXT].encode(errors="replace").decode()  # No surrogates, which JSON cannot have.
        state = self._states.get((kind, project, subject))
        if state is None or state.alert.until:
            sent = state.sent if state is not None else -math.inf
            state = _State(self.new(kind, project, text, severity), sent)
            self._states[kind, project, subject] = state
        state.alert = state.alert.model_copy(update={"text": text, "severity": severity})
        self._announce(state)

    def end(self, kind: Kind, project: str, *, subject: str = "") -> None:
        """End an alert, and send that if it was announced."""
        state = self._states.get((kind, project, subject))
        if state is not None and not state.alert.until:
            state.alert = state.alert.model_copy(update={"until": format_utc(time.time_ns())})
            if state.announced:
                self._send(state.alert)

    def end_all(self, project: str) -> None:
        for kind, name, subject in list(self._states):
            if name == project:
                self.end(kind, name, subject=subject)

    def check(self) -> None:
        """Send messages that are due, and forget ended alerts that have had none for an hour."""
        for key, state in list(self._states.items()):
            if not state.alert.until:
                self._announce(state)
            elif self._clock() - state.sent >= AGAIN_SECONDS:
                del self._states[key]

    def active(self) -> list[Alert]:
        """Return the alerts that last, oldest first."""
        alerts = (state.alert for state in self._states.values() if not state.alert.until)
        return sorted(alerts, key=lambda alert: alert.since)

    def _announce(self, state: _State) -> None:
        if self._clock() - state.sent >= (REPEAT_SECONDS if state.announced else AGAIN_SECONDS):
            state.sent, state.announced = self._clock(), True
            self._send(state.alert)
