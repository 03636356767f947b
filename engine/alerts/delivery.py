"""Delivery of alerts to webhooks and to the services that Apprise knows: a bounded queue, attempts for a day.

The service never waits for a receiver. An alert that is not delivered is lost, and reported as such.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import certifi
import httpx

from engine.alerts.alerts import Alert
from engine.errors import InvalidUsage, SvcError

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
