"""Exports of a service: to the collector of its operator, and to those that projects name."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from engine.manifest.collector import Collector, ProjectCollector, parse_collector
from engine.metrics.families import Family, Labels, ServiceState, families
from engine.metrics.guests import guest_families
from engine.metrics.meter import ServiceMeter
from engine.otlp.exporter import ByteBudget, Exporter, ExportSource
from engine.otlp.installation import OtlpNotInstalled, require_otlp
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord

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
    unsubscribe: Callable[[], None]


class Exports:
    """The exporters of a service. Create it on the event loop."""

    def __init__(
        self,
        operator: Collector | None,
        meter: ServiceMeter,
        state: Callable[[], Awaitable[ServiceState]],
        collector: Callable[[str], ProjectCollector | None],
        log: Callable[[str, str], None],
    ) -> None:
        """`collector` returns that of a project as it is served, `log` takes a level and a line of the log.

        Raises `OtlpNotInstalled` for an operator's collector without the packages.
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
            source = ExportSource(self._service_families, lambda text: log("warning", text), self._started_ns)
            self._operator = Exporter(
                operator, source, ByteBudget(MAX_SERVICE_BYTES), max_bytes=MAX_SERVICE_BYTES
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
        return [
            Family(
                "svc.otlp.sent",
                "counter",
                "",
                "Records that OpenTelemetry collectors accepted.",
                list(_counts((labels, exporter.sent) for labels, exporter in running)),
            ),
            Family(
                "svc.otlp.dropped",
                "counter",
                "",
                "Records that were not sent: the queue was full, or the collector refused them.",
                list(_counts((labels, exporter.dropped) for labels, exporter in running)),
            ),
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
        except OtlpNotInstalled as error:
            report(f"nothing is sent to {collector.url}: on the service, {error.message}")
            return None
        source = ExportSource(lambda: self._project_families(project), report, self._started_ns)
        return Exporter(
            parse_collector(collector.url),
            source,
            self._budget,
            max_bytes=MAX_PROJECT_BYTES,
            headers=dict(collector.headers),
        )

    def _service_families(self) -> Sequence[Family]:
        state = asyncio.run_coroutine_threadsafe(_awaited(self._state()), self._loop)
        try:
            now = state.result(STATE_SECONDS)
        except Exception:
            state.cancel()  # The service stops; its counters are sent without its state.
            now = None
        return [*families(self._meter.read(), now), *guest_families(self._meter.series())]

    def _project_families(self, project: str) -> Sequence[Family]:
        own = families(self._meter.read(project), None)
        return [*own, *guest_families(self._meter.series(project))]


async def _awaited(state: Awaitable[ServiceState]) -> ServiceState:
    return await state


def _counts(counters: Iterable[tuple[Labels, Mapping[str, int]]]) -> Iterator[tuple[Labels, float]]:
    for labels, counts in counters:
        for signal, count in sorted(counts.items()):
            yield {**labels, "signal": signal}, count
