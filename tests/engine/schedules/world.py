"""A clock and processes with schedules, which tests drive through simulated days."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from engine.bucket.folder import Database
from engine.bucket.protocols import BucketClosed, KeyValue
from engine.cancellation import cancel
from engine.http.exchange import Exchange
from engine.manifest.model import Project, Resource
from engine.manifest.schedules import Schedule
from engine.schedules.scheduler import Scheduler
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record

ZURICH = "Europe/Zurich"
SCHEDULES = (
    Schedule("/night", "30 2 * * *", ZURICH),
    Schedule("/half", "*/30 * * * *", ZURICH),
    Schedule("/poll", "every 20m", ZURICH, catch_up=True),
)
SPRING, AUTUMN = "2026-03-28T12:00+00:00", "2026-10-24T12:00+00:00"


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def shop(*schedules: Schedule) -> Project:
    worker = Resource("worker", "js", Path("/"), schedules=schedules)
    return Project("shop", Path("/"), {"worker": worker})


class World:
    """A clock, and what processes send to the gateway: each run's path and occurrence."""

    def __init__(self, folder: Path, begin: str = SPRING, *schedules: Schedule) -> None:
        self.now: float = seconds(begin)
        self.project = shop(*(schedules or SCHEDULES))
        self.started: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.status = 204
        self.alerts: dict[str, str] = {}
        """Texts by schedule; empty once an alert has ended."""
        self.finish, self.begun = asyncio.Event(), asyncio.Event()
        self.finish.set()
        self._file = folder / "state.db"
        self.timeline = TimelineBus()
        self.timeline.subscribe(self._record)

    def _record(self, record: Record) -> None:
        if isinstance(record, PlatformRecord):
            self.texts.append(record.text)

    def alert(self, project: str, text: str, subject: str) -> None:
        assert project == "shop"
        self.alerts[subject] = text

    async def send(self, exchange: Exchange) -> None:
        fields = dict(exchange.request.headers)
        due = fields[b"x-svc-scheduled-time"].decode()
        self.started.append((fields[b"x-svc-schedule"].decode(), due))
        if not self.finish.is_set():
            self.begun.set()
        await self.finish.wait()
        await exchange.send_head(self.status, [])

    @asynccontextmanager
    async def process(self, node: str = "", cells: KeyValue | None = None) -> AsyncIterator["Process"]:
        """A process that is killed at the end; `cells` is its bucket (default: a file that all share)."""
        process = Process(self, self._file, node, cells)
        try:
            yield process
        finally:
            await process.kill()


class Process:
    """One scheduler."""

    def __init__(self, world: World, file: Path, node: str, cells: KeyValue | None) -> None:
        self._world, self._file, self._shared, self._killed = world, file, cells, False
        self._database: Database | None = None
        self.scheduler = Scheduler(
            self._cells,
            lambda: {"shop": world.project},
            world.send,
            lambda _: world.timeline,
            node=node,
            clock=lambda: world.now,
            alert=world.alert,
        )

    def _cells(self) -> KeyValue:
        if self._killed:
            raise BucketClosed
        if self._shared is not None:
            return self._shared
        self._database = self._database or Database(self._file)
        return self._database

    async def tick(self) -> None:
        """Start what is due, and wait for the ends of runs that can end."""
        await self.scheduler.tick()
        if self._world.finish.is_set():
            await self.scheduler.stop(10)

    async def kill(self) -> None:
        self._killed = True
        await cancel(self.scheduler.runs)
        if self._database is not None:
            await self._database.aclose()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def expected(begin: int, end: int) -> set[tuple[str, str]]:
    """Return the occurrences of `SCHEDULES` after a time, from the wall clock of Zurich by the minute."""
    found = set[tuple[str, str]]()
    for moment in range(begin // 60 * 60 + 60, end + 1, 60):
        local = datetime.fromtimestamp(moment, ZoneInfo(ZURICH))
        due = datetime.fromtimestamp(moment, ZoneInfo("UTC")).strftime("%Y-%m-%dT%H:%M:%SZ")
        if moment % 1800 == 0:
            found.add(("/half", due))
        if moment % 1200 == 0:
            found.add(("/poll", due))
        if (local.hour, local.minute, local.fold) == (2, 30, 0):
            found.add(("/night", due))
        if due == "2026-03-29T01:00:00Z":
            found.add(("/night", due))  # 02:30 does not exist: 03:00 is the next minute
    return found
