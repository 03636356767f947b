"""The alerts of a service: the conditions that raise them, and their delivery.

A message is sent when an alert begins and when it ends. An alert that lasts is repeated once a day. One that
ends and begins again is sent at most once an hour. Receivers are webhooks, and services that Apprise knows.
The service never waits for one: messages wait in a bounded queue, and are tried for a day. One that is not
delivered is lost, and reported as such.
"""

import asyncio
import math
import ssl
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import certifi
import httpx
from cryptography import x509
from pydantic import BaseModel

from engine.cancellation import cancel, spawn
from engine.errors import InvalidUsage, SvcError
from engine.files.reserve import shortage
from engine.http.tls import Certificate, read
from engine.metrics.families import OTHER, ResourceMeter, ServiceMeter
from engine.timeline.record import format_utc
from engine.wasm.execution.memory_budget import ADMISSION_SHARE

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
            message = f"--notify {scheme}://… requires the package apprise, which is not installed"
            hint = "Install it: pip install 'svc-tui[notify]'. An https:// URL works without it."
            raise SvcError(message, hint, code="notify-not-installed") from None
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


CHECK_SECONDS = 30.0
WINDOW_SECONDS = 300.0
"""Length of the window of the failure rate."""
FAILURE_SHARE, MIN_FAILURES = 0.05, 5
"""Share of failed requests above which there is an alert, and their minimum number."""
CERTIFICATE_DAYS = 14
"""Remaining validity below which there is an alert."""


class Attempt(BaseModel):
    """A receiver, without the path of its URL, and why the test failed: empty if it did not."""

    target: str
    error: str


class AlertMonitor:
    """The alerts of a service. Use on one event loop."""

    def __init__(
        self,
        data: Path,
        certificate: Certificate | None,
        meter: ServiceMeter,
        *,
        memory: Callable[[], tuple[int, int]],
        absent: Callable[[], Awaitable[tuple[Mapping[str, str], bool]]],
        url_of: Callable[[str], str],
        targets: Sequence[Target],
        lost: Callable[[Alert, str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`memory` returns the used bytes and the budget, `absent` the addresses of absent nodes by id.

        It also returns whether this node reports them, and raises `SvcError` if it cannot say. `lost` and
        `warn` are those of `Sender`, `url_of` that of `Alerts`.
        """
        self._data, self._certificate, self._meter = data, certificate, meter
        self._memory, self._absent_nodes = memory, absent
        self.senders = [Sender(target, lost, warn) for target in targets]
        self.alerts = Alerts(self._send, url_of)
        counts = Counter[str](), Counter[str]()
        self._counts = deque([counts], int(WINDOW_SECONDS / CHECK_SECONDS) + 1)
        """Requests and failures by project since the start of the service, at the last checks."""
        self._absent: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Check and send from now on."""
        for sender in self.senders:
            spawn(self._tasks, sender.run())
        spawn(self._tasks, self._run())

    async def aclose(self) -> None:
        """Stop. Alerts that wait are lost."""
        await cancel(self._tasks)

    def _send(self, alert: Alert) -> None:
        for sender in self.senders:
            sender.add(alert)

    async def test(self) -> list[Attempt]:
        """Send a test alert once to each receiver."""
        alert = self.alerts.new("test", "", "this is a test of svc", "warning")
        failures = await asyncio.gather(*(sender.target.send(alert) for sender in self.senders))
        attempts = zip(self.senders, failures, strict=True)
        return [
            Attempt(target=sender.target.name, error=failure.text if failure else "")
            for sender, failure in attempts
        ]

    def deployed(self, project: str, failure: str) -> None:
        """Handle the end of a deploy, which was a success if `failure` is empty."""
        self.report("deploy-failed", project, failure and f"a deploy of {project} failed: {failure}")

    def report(self, kind: Kind, project: str, text: str, subject: str = "") -> None:
        """Begin or continue an alert with a text; end it without one."""
        if text:
            self.alerts.begin(kind, project, text, subject=subject)
        else:
            self.alerts.end(kind, project, subject=subject)

    async def _run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Check all conditions once."""
        self._check_failures(await asyncio.to_thread(self._meter.read))
        try:
            text = shortage(self._data)
        except OSError as error:
            text = f"the disk cannot be read: {error.strerror}"
        self.report("disk", "", text)
        used, budget = self._memory()
        text = f"the memory budget is exhausted: {used >> 20} of {budget >> 20} MiB are used"
        self.report("memory", "", text if used >= budget * ADMISSION_SHARE else "")
        if self._certificate is not None:
            self._check_certificate(self._certificate)
        await self._check_nodes()
        self.alerts.check()

    def _check_failures(self, meters: Mapping[tuple[str, str], ResourceMeter]) -> None:
        requests, failures = counts = Counter[str](), Counter[str]()
        for (project, _), meter in meters.items():
            requests[project] += meter.requests.total()
            failures[project] += meter.requests["5xx"] - meter.failures["not-ready"]
        self._counts.append(counts)
        old_requests, old_failures = self._counts[0]
        for project in requests.keys() - {"", OTHER}:
            all_, failed = (
                requests[project] - old_requests[project],
                failures[project] - old_failures[project],
            )
            text = f"{failed} of {all_} requests to {project} failed within {WINDOW_SECONDS / 60:.0f} minutes"
            if failed <= all_ * FAILURE_SHARE or failed >= MIN_FAILURES:
                self.report("failure-rate", project, text if failed > all_ * FAILURE_SHARE else "")

    def _check_certificate(self, certificate: Certificate) -> None:
        try:
            until = x509.load_pem_x509_certificate(read(certificate.chain)).not_valid_after_utc
            days = (until - datetime.now(UTC)) // timedelta(days=1)
            state = f"expires in {days} days" if days >= 0 else "has expired"
        except (SvcError, ValueError):
            days, state = -1, "cannot be read"
        if days >= CERTIFICATE_DAYS:
            self.alerts.end("certificate", "")
        else:
            text = f"the TLS certificate {certificate.chain} {state}"
            self.alerts.begin("certificate", "", text, severity="error" if days < 0 else "warning")

    async def _check_nodes(self) -> None:
        """Alert on nodes that are absent at two checks."""
        try:
            absent, reports = await self._absent_nodes()
        except SvcError:  # A majority of the nodes is necessary to read their list; the log reports that.
            return
        for id_ in self._absent - absent.keys():
            self.alerts.end("node-lost", "", subject=id_)
        for id_ in self._absent & absent.keys():
            if reports:
                text = f"the node {id_} at {absent[id_]} does not answer"
                self.alerts.begin("node-lost", "", text, subject=id_)
        self._absent = set(absent)
