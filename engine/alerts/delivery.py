"""The alerts of a service, and their delivery to webhooks and to the services that Apprise knows.

A message is sent when an alert begins and when it ends. An alert that lasts is repeated once a day. One that
ends and begins again is sent at most once an hour. The service never waits for a receiver: messages wait in a
bounded queue, and are tried for a day. One that is not delivered is lost, and reported as such.
"""

import asyncio
import math
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import certifi
import httpx
from pydantic import BaseModel

from engine.errors import InvalidUsage, SvcError
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


ATTEMPT_SECONDS = 10.0
"""Maximum time of an attempt, with the lookup of the name."""
MAX_WAITING = 500
"""Maximum alerts that wait for a receiver."""
RETRY_SECONDS, MAX_RETRY_SECONDS = 10.0, 900.0
"""First pause after a failed attempt, which doubles with each further one, and its maximum."""
GIVE_UP_SECONDS = 24 * 3600.0
"""Time after which an alert is not retried."""
TRANSIENT = frozenset({408, 425, 429})
"""Statuses from 400 to 499 that another attempt can change. After the others, there is none."""
_EXAMPLE = "Use https://hook.example.com/…, or a URL that Apprise documents, as mailto://USER:PASSWORD@HOST."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. A `final` failure is not retried."""

    text: str
    final: bool = False


class Webhook:
    """A URL that gets alerts as JSON. Redirects are not followed: they are failures."""

    def __init__(self, url: str) -> None:
        try:
            parts, self._url = urlsplit(url), httpx.URL(url)
            self.name = f"{parts.scheme}://{self._url.host}" + (f":{parts.port}" if parts.port else "")
        except (ValueError, httpx.InvalidURL):
            self._url = httpx.URL()
        if not self._url.host:
            raise InvalidUsage("--notify has an invalid http URL", _EXAMPLE)
        self._context = ssl.create_default_context()  # the system's certificates and SSL_CERT_FILE
        self._context.load_verify_locations(certifi.where())

    async def send(self, alert: Alert) -> Failure | None:
        """Make one attempt; return why it failed. The response body is not read."""
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                httpx.AsyncClient(verify=self._context, timeout=None) as client,
                client.stream("POST", self._url, json=alert.model_dump()) as response,
            ):
                status = response.status_code
        except TimeoutError:
            return Failure(f"no response within {ATTEMPT_SECONDS:.0f} s")
        except (httpx.HTTPError, OSError) as error:
            return Failure(str(error) or type(error).__name__)
        if response.has_redirect_location:
            return Failure(f"status {status}: pass the URL to which it redirects")
        if 400 <= status < 500 and status not in TRANSIENT:
            return Failure(f"status {status}: the receiver refuses it, check the URL", final=True)
        return None if response.is_success else Failure(f"status {status}")


class AppriseTarget:
    """A service that Apprise knows, such as mail, Slack or Telegram."""

    def __init__(self, scheme: str, url: str) -> None:
        try:
            from apprise import Apprise
        except ModuleNotFoundError:
            raise SvcError(
                f"--notify {scheme}://… requires the package apprise, which is not installed",
                "Install it: pip install 'svc-tui[notify]'. An https:// URL works without it.",
                code="notify-not-installed",
            ) from None
        self.name, self._apprise = f"{scheme}://…", Apprise()
        if not self._apprise.add(url):
            raise InvalidUsage(f"Apprise does not accept --notify {self.name}", _EXAMPLE)

    async def send(self, alert: Alert) -> Failure | None:
        """Make one attempt, on a thread; return why it failed."""
        kind = "success" if alert.until else "warning" if alert.severity == "warning" else "failure"
        text = f"{alert.text}\n{alert.url}"
        notify = self._apprise.notify
        sent = await asyncio.to_thread(notify, text, alert.title, kind, timeout=ATTEMPT_SECONDS)
        return None if sent else Failure("Apprise could not send it")


Target = Webhook | AppriseTarget


def parse_target(url: str) -> Target:
    """Return the receiver at a URL. Raises `InvalidUsage`, and `SvcError` without the extra `notify`."""
    scheme = url.partition("://")[0].lower()
    if scheme == url.lower() or not scheme.isalnum() or not url.isprintable():
        raise InvalidUsage("--notify requires a URL with a scheme", _EXAMPLE)
    return Webhook(url) if scheme in ("http", "https") else AppriseTarget(scheme, url)


class Sender:
    """Sends to one receiver. Use on one event loop; `run` sends until it is canceled."""

    def __init__(
        self,
        target: Target,
        lost: Callable[[Alert, str], None],
        warn: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`lost` receives each alert that is not delivered, and why; `warn` a line when attempts fail."""
        self.target = target
        self._lost, self._warn, self._clock, self._wait = lost, warn, clock, wait
        self._waiting: deque[tuple[float, Alert]] = deque()
        self._added = asyncio.Event()

    def add(self, alert: Alert) -> None:
        """Queue an alert without waiting."""
        if len(self._waiting) >= MAX_WAITING:
            self._lost(alert, f"{MAX_WAITING} alerts wait already")
            return
        self._waiting.append((self._clock(), alert))
        self._added.set()

    async def run(self) -> None:
        """Send the alerts in their order, until canceled. Those that wait then are lost."""
        pause = 0.0
        try:
            while True:
                await self._added.wait()
                added, alert = self._waiting[0]
                failure = await self.target.send(alert)
                if failure and not failure.final and self._clock() - added < GIVE_UP_SECONDS:
                    if not pause:
                        name = self.target.name
                        self._warn(f"alerts do not reach {name}; svc tries for a day: {failure.text}")
                    pause = min(max(2 * pause, RETRY_SECONDS), MAX_RETRY_SECONDS)
                    await self._wait(pause)
                    continue
                self._waiting.popleft()
                if failure:
                    self._lost(alert, failure.text)
                if not failure or failure.final:
                    pause = 0.0
                if not self._waiting:
                    self._added.clear()
        except asyncio.CancelledError:
            for _, alert in self._waiting:
                self._lost(alert, "the service stops")
            raise
