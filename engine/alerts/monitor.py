"""The conditions that raise alerts of a running service, and its receivers."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from pydantic import BaseModel

from engine.alerts.delivery import Alert, Alerts, Kind, Sender, Target
from engine.cancellation import cancel, spawn
from engine.errors import SvcError
from engine.files.reserve import shortage
from engine.http.tls import Certificate, read
from engine.metrics.families import OTHER, ResourceMeter, ServiceMeter
from engine.wasm.execution.memory_budget import ADMISSION_SHARE

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
