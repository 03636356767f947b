"""Exporter of one collector: a bounded queue of records, and a thread that sends them.

A request only appends its record to the queue. While the collector does not answer, records wait; those that
do not fit are dropped and counted.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.manifest.collector import Collector
from engine.metrics.families import Family
from engine.timeline.record import Record, RequestRecord
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
        """Reserve bytes; return whether they remained."""
        with self._lock:
            if size > self._remaining:
                return False
            self._remaining -= size
            return True

    def release(self, size: int) -> None:
        """Return taken bytes."""
        with self._lock:
            self._remaining += size


@dataclass(frozen=True, slots=True)
class ExportSource:
    """Metrics that an exporter sends, and its reports of failures.

    `metrics` returns the families, on the exporter's thread; they were counted since `started_ns`.
    """

    metrics: Callable[[], Sequence[Family]]
    report: Callable[[str], None]
    started_ns: int


class Exporter:
    """Sends to one collector until `close`. `sent` and `dropped` count records by signal."""

    def __init__(
        self,
        collector: Collector,
        source: ExportSource,
        budget: ByteBudget,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        metrics_seconds: float = METRICS_SECONDS,
    ) -> None:
        """`max_bytes` limit the queue. With `headers`, the rules for a project's collector apply."""
        self._collector, self._source, self._budget = collector, source, budget
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
        """Drop and count what is queued."""
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
            families = self._source.metrics()
            if not any(family.points for family in families):
                return
            outcome = sender.metrics(families, self._source.started_ns, time.time_ns())
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
        self._source.report(f"the collector {self._collector} does not accept all data: {reason}{losses}")


def _batch(queue: "deque[tuple[str, Record]]") -> tuple[list[tuple[str, Record]], int]:
    """Return the first records of a queue, and their size."""
    batch: list[tuple[str, Record]] = []
    total = 0
    for item in queue:
        size = size_of(item[1])
        if len(batch) == BATCH_RECORDS or (batch and total + size > BATCH_BYTES):
            break
        batch.append(item)
        total += size
    return batch, total
