"""The daily garbage collection of a service, across restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from engine.bucket.folder import FolderBucket
from engine.deploy.gc import CHECK_SECONDS, DAY_NS, GarbageError, GcReport, run_gc_daily
from tests.engine.deploy.packing import opened

NOTHING = GcReport(0, 0, 0)
T0 = 1_700_000_000 * 10**9


class Day:
    """A clock that advances when the service waits, and stops it after this many hours."""

    def __init__(self, hours: int, begin_ns: int = T0) -> None:
        self.now_ns = begin_ns
        self._left = hours

    def now(self) -> int:
        return self.now_ns

    async def wait(self, seconds: float) -> None:
        if not self._left:
            raise asyncio.CancelledError
        self._left -= 1
        self.now_ns += int(seconds * 1e9)


async def sweeps(
    bucket: FolderBucket, day: Day, sweep: Callable[[], Awaitable[GcReport]] | None = None
) -> tuple[list[int], list[tuple[str, str]]]:
    """Return the hours of the collections, and the log entries. Hours are negative for files only."""
    hours: list[int] = []
    logged: list[tuple[str, str]] = []

    async def counted(*, files_only: bool = False) -> GcReport:
        hour = (day.now_ns - T0) // (3600 * 10**9)
        hours.append(-hour if files_only else hour)
        return await sweep() if sweep is not None else NOTHING

    try:
        await run_gc_daily(
            bucket.kv,
            counted,
            lambda level, text: logged.append((level, text)),
            now_ns=day.now,
            wait=day.wait,
        )
    except asyncio.CancelledError:
        return hours, logged


def test_gc_runs_daily_but_not_at_start(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        assert await sweeps(bucket, Day(60)) == ([1, 25, 49], [])

    assert CHECK_SECONDS == 3600 and DAY_NS == 24 * 3600 * 10**9
    opened(tmp_path, scenario)


def test_restart_does_not_change_gc_schedule(tmp_path: Path) -> None:
    result: list[int] = []
    for begin in (0, 5, 10, 15, 20, 25, 30):

        async def scenario(bucket: FolderBucket, begin: int = begin) -> None:
            result.extend((await sweeps(bucket, Day(5, T0 + begin * 3600 * 10**9)))[0])

        opened(tmp_path, scenario)
    assert result == [1, 25]


def test_other_nodes_remove_their_files_after_each_run(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        class OtherNode(Day):
            async def wait(self, seconds: float) -> None:
                await sweeps(bucket, Day(1, self.now_ns))
                await super().wait(seconds)

        assert (await sweeps(bucket, OtherNode(60)))[0] == [-25, -49]

    opened(tmp_path, scenario)


def test_gc_continues_after_clock_correction(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        assert (await sweeps(bucket, Day(1, T0 + 1000 * DAY_NS)))[0] == [24001]
        assert (await sweeps(bucket, Day(2)))[0] == [1]

    opened(tmp_path, scenario)


def test_gc_results_and_errors_are_logged(tmp_path: Path) -> None:
    async def some() -> GcReport:
        return GcReport(2, 1234, 0, 1)

    async def failing() -> GcReport:
        raise GarbageError("nothing was removed", "Deploy again.")

    async def scenario(bucket: FolderBucket) -> None:
        ((level, text),) = (await sweeps(bucket, Day(1), some))[1]
        assert level == "info" and "blobs 2 (1234 bytes), unpacked packages 1" in text
        hours, logged = await sweeps(bucket, Day(60, T0 + 24 * 3600 * 10**9), failing)
        assert hours == [25, 49, 73]
        assert logged == [("warning", "nothing was removed (Deploy again.)")] * 3

    opened(tmp_path, scenario)
