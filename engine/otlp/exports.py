"""Exports of a service: to the collector of its operator, and to those that projects name.

A request only appends its record to a bounded queue, which a thread sends. While a collector does not answer,
records wait; those that do not fit are dropped and counted.
"""

import asyncio
import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.errors import SvcError
from engine.manifest.egress import Collector, ProjectCollector, parse_collector
from engine.metrics.families import Family, Labels, ServiceMeter, ServiceState, families, guest_families
from engine.otlp import require_otlp
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record, RequestRecord
from engine.timeline.recorder import size_of

if TYPE_CHECKING:
    from engine.otlp.sender import Sender

SEND_SECONDS = 1.0
"""Maximum time that a record waits for others."""
RETRY_SECONDS = 5.0
"""Pause after a request that failed."""
METRICS_SECONDS = 60.0
"""Time between two exports of metrics."""
REPORT_SECONDS = 60.0
"""Minimum time between two reports of failures."""
BATCH_RECORDS, BATCH_BYTES = 512, 1 << 20
"""Maximum records, and approximate bytes, of a request."""
_log = logging.getLogger("svc.server")


class ByteBudget:
    """Bytes that several queues share."""

    def __init__(self, limit: int) -> None:
        self._remaining = limit
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._remaining:
                return False
            self._remaining -= size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self._remaining += size


class Exporter:
    """Sends to one collector until `close`. `sent` and `dropped` count records by signal."""

    def __init__(
        self,
        collector: Collector,
        budget: ByteBudget,
        *,
        metrics: Callable[[], Sequence[Family]],
        report: Callable[[str], None],
        started_ns: int,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        metrics_seconds: float = METRICS_SECONDS,
    ) -> None:
        """`metrics` returns the families, on a thread of its own; they were counted since `started_ns`.

        `report` takes failures. `max_bytes` limit the queue. With `headers`, the rules for a project's
        collector apply.
        """
        self._collector, self._budget, self._started_ns = collector, budget, started_ns
        self._read_metrics, self._report_failure = metrics, report
        self._max_bytes, self._headers, self._metrics_seconds = max_bytes, headers, metrics_seconds
        self._queues: dict[str, deque[tuple[str, Record]]] = {"traces": deque(), "logs": deque()}
        self._bytes = 0
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self._reported = 0
        self._report_at = 0.0
        self._failure = ""
        self._sender: Sender | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._wakeup, self._batch_full = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    def add(self, project: str, record: Record) -> None:
        """Queue a record without blocking; call it from any thread."""
        signal, size = ("traces" if type(record) is RequestRecord else "logs"), size_of(record)
        with self._lock:
            if self._stopping or self._bytes + size > self._max_bytes or not self._budget.take(size):
                self.dropped[signal] += 1
                return
            self._bytes += size
            queue = self._queues[signal]
            queue.append((project, record))
            count = len(queue)
        if count == 1:
            self._wakeup.set()
        elif count == BATCH_RECORDS:
            self._batch_full.set()

    @property
    def running(self) -> bool:
        """True until everything is sent after `stop`."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Accept no further records, and send those that are queued."""
        with self._lock:
            self._stopping = True
        self._wakeup.set()
        self._batch_full.set()

    def close(self, deadline: float) -> None:
        """Stop, at the latest at a time of `time.monotonic`. What is not sent is dropped and counted."""
        self.stop()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive() and self._sender is not None:
            self._sender.abort()
        self._drop_rest()
        self._report(last=True)

    def _drop_rest(self) -> None:
        with self._lock:
            for signal, queue in self._queues.items():
                self.dropped[signal] += len(queue)
                queue.clear()
            self._budget.release(self._bytes)
            self._bytes = 0

    def _work(self) -> None:
        # Imported here: the SDK takes half a second, and a service that sends nothing does not need it.
        from engine.otlp.sender import Sender

        self._sender = Sender(self._collector, self._headers)
        metrics_at, pause = time.monotonic() + self._metrics_seconds, SEND_SECONDS
        while True:
            if self._wakeup.wait(max(0.0, metrics_at - time.monotonic())):
                self._wakeup.clear()
                self._batch_full.wait(0 if self._stopping else pause)
            stopping = self._stopping
            if not stopping:
                self._batch_full.clear()
            complete = self._send_all("traces", self._sender.traces)
            complete = self._send_all("logs", self._sender.logs) and complete
            if complete and self.dropped.total() == self._reported:
                self._failure = ""  # The outage is over.
            if stopping or time.monotonic() >= metrics_at:
                self._send_metrics(self._sender)
                metrics_at = time.monotonic() + self._metrics_seconds
            if stopping:
                self._drop_rest()
            self._report()
            if stopping:
                return
            pause = SEND_SECONDS if complete else RETRY_SECONDS
            if not complete:
                self._wakeup.set()

    def _send_all(self, signal: str, send: Callable[[Sequence[tuple[str, Record]]], str]) -> bool:
        """Send the records of a signal in batches; return False once the collector is unavailable."""
        queue = self._queues[signal]
        while True:
            with self._lock:
                batch, size = _batch(queue)
            if not batch:
                return True
            try:
                outcome = send(batch)
            except Exception:  # One record that cannot be converted must not stop the others.
                _log.exception("records cannot be converted for %s", self._collector)
                outcome = "refused"
            if outcome != "sent":
                assert self._sender is not None
                self._failure = self._sender.error
            if outcome == "unavailable":
                return False
            with self._lock:
                if not queue:  # `close` has dropped them.
                    return True
                for _ in batch:
                    queue.popleft()
                self._bytes -= size
                self._budget.release(size)
                (self.sent if outcome == "sent" else self.dropped)[signal] += len(batch)

    def _send_metrics(self, sender: "Sender") -> None:
        """Send the metrics of now. Those of a failed request are in the next one."""
        try:
            families = self._read_metrics()
            if not any(family.points for family in families):
                return
            outcome = sender.metrics(families, self._started_ns, time.time_ns())
        except Exception:  # The records must be sent all the same.
            _log.exception("metrics cannot be converted for %s", self._collector)
            return
        if outcome != "sent":
            self._failure = sender.error

    def _report(self, *, last: bool = False) -> None:
        """Report dropped records and failures at most once in `REPORT_SECONDS`; `last` reports all drops."""
        dropped = self.dropped.total() - self._reported
        due = dropped if last else (dropped or self._failure) and time.monotonic() >= self._report_at
        if not due:
            return
        self._report_at = time.monotonic() + REPORT_SECONDS
        self._reported += dropped
        reason = self._failure or "records arrive faster than it accepts them"
        self._failure = ""
        losses = f"; {dropped} record{' was' if dropped == 1 else 's were'} dropped" if dropped else ""
        self._report_failure(f"the collector {self._collector} does not accept all data: {reason}{losses}")


def _batch(queue: "deque[tuple[str, Record]]") -> tuple[list[tuple[str, Record]], int]:
    batch: list[tuple[str, Record]] = []
    total = 0
    for item in queue:
        size = size_of(item[1])
        if len(batch) == BATCH_RECORDS or (batch and total + size > BATCH_BYTES):
            break
        batch.append(item)
        total += size
    return batch, total


MAX_SERVICE_BYTES = 64 << 20
"""Maximum approximate bytes that wait for the operator's collector."""
MAX_PROJECT_BYTES = 8 << 20
"""Maximum approximate bytes that wait for the collector of a project."""
MAX_PROJECTS_BYTES = 64 << 20
"""Maximum approximate bytes that wait for the collectors of all projects."""
CLOSE_SECONDS = 5.0
"""Maximum time to send what is queued when the service stops."""
STATE_SECONDS = 5.0
"""Maximum time to read the state of the service."""
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")


@dataclass(frozen=True, slots=True)
class _ProjectExport:
    """The collector of a project, and its exporter; None if nothing can be sent to it."""

    collector: ProjectCollector
    exporter: Exporter | None
    unsubscribe: Callable[[], object]


class Exports:
    """The exporters of a service. Create it on the event loop."""

    def __init__(
        self,
        operator: Collector | None,
        meter: ServiceMeter,
        state: Callable[[], Coroutine[Any, Any, ServiceState]],
        collector: Callable[[str], ProjectCollector | None],
        log: Callable[[str, str], None],
    ) -> None:
        """`collector` returns that of a project as it is served, `log` takes a level and a line of the log.

        Raises `SvcError` for an operator's collector without the packages.
        """
        self._meter, self._state, self._collector, self._log = meter, state, collector, log
        self._loop = asyncio.get_running_loop()
        self._started_ns = time.time_ns()
        self._timelines: dict[str, TimelineBus] = {}
        self._projects: dict[str, _ProjectExport] = {}
        self._budget = ByteBudget(MAX_PROJECTS_BYTES)
        self._replaced: list[Exporter] = []
        self._operator: Exporter | None = None
        if operator is not None:
            require_otlp()
            self._operator = Exporter(
                operator,
                ByteBudget(MAX_SERVICE_BYTES),
                metrics=self._service_families,
                report=partial(log, "warning"),
                started_ns=self._started_ns,
                max_bytes=MAX_SERVICE_BYTES,
            )

    def follow(self, project: str, timeline: TimelineBus) -> None:
        """Send the records of a project's timeline; the empty name is the service itself."""
        self._timelines[project] = timeline
        if self._operator is not None:
            timeline.subscribe(partial(self._operator.add, project))
        self.refresh(project)

    def refresh(self, project: str) -> None:
        """Send to the collector of the live deployment. Call it after each activation."""
        collector, current = self._collector(project), self._projects.get(project)
        if project not in self._timelines or collector == (current.collector if current else None):
            return
        if current is not None:
            del self._projects[project]
            if current.exporter is not None:
                current.exporter.stop()
                self._replaced = [each for each in self._replaced if each.running] + [current.exporter]
            current.unsubscribe()
        if collector is not None:
            exporter, timeline = self._open(project, collector), self._timelines[project]
            unsubscribe = timeline.subscribe(partial(exporter.add, project)) if exporter else lambda: None
            self._projects[project] = _ProjectExport(collector, exporter, unsubscribe)

    def families(self) -> list[Family]:
        """Return the numbers of sent and dropped records. Those of a project are labeled with its name."""
        each: list[tuple[Labels, Exporter | None]] = [
            ({}, self._operator),
            *(({"project": name}, export.exporter) for name, export in self._projects.items()),
        ]
        running = [(labels, exporter) for labels, exporter in each if exporter is not None]
        if not running:
            return []
        texts = {
            "sent": "Records that OpenTelemetry collectors accepted.",
            "dropped": "Records that were not sent: the queue was full, or the collector refused them.",
        }
        return [
            Family(
                f"svc.otlp.{name}",
                "counter",
                "",
                text,
                [
                    ({**labels, "signal": signal}, count)
                    for labels, exporter in running
                    for signal, count in sorted(getattr(exporter, name).items())
                ],
            )
            for name, text in texts.items()
        ]

    async def aclose(self) -> None:
        """Send what is queued, within `CLOSE_SECONDS`, and stop."""
        each = [self._operator, *(export.exporter for export in self._projects.values()), *self._replaced]
        exporters = [exporter for exporter in each if exporter is not None]

        def close() -> None:
            deadline = time.monotonic() + CLOSE_SECONDS
            for exporter in exporters:
                exporter.stop()
            for exporter in exporters:
                exporter.close(deadline)

        await asyncio.to_thread(close)

    def _open(self, project: str, collector: ProjectCollector) -> Exporter | None:
        def append(text: str) -> None:
            self._timelines[project].append(PlatformRecord(time.time_ns(), "", "WARN", text))

        def report(text: str) -> None:
            with suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(append, text)

        for name, value in collector.headers:
            if not _HEADER_VALUE.fullmatch(value):
                report(f"nothing is sent to {collector.url}: invalid header value in the secret of {name}")
                return None
        try:
            require_otlp()
        except SvcError as error:
            report(f"nothing is sent to {collector.url}: on the service, {error.message}")
            return None
        return Exporter(
            parse_collector(collector.url),
            self._budget,
            metrics=lambda: [
                *families(self._meter.read(project), None),
                *guest_families(self._meter.series(project)),
            ],
            report=report,
            started_ns=self._started_ns,
            max_bytes=MAX_PROJECT_BYTES,
            headers=dict(collector.headers),
        )

    def _service_families(self) -> Sequence[Family]:
        state = asyncio.run_coroutine_threadsafe(self._state(), self._loop)
        try:
            now = state.result(STATE_SECONDS)
        except Exception:
            state.cancel()  # The service stops; its counters are sent without its state.
            now = None
        return [*families(self._meter.read(), now), *guest_families(self._meter.series())]
