"""Daily garbage collection.

The bucket stores the time of the last run, so restarts neither repeat nor delay it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from engine.bucket.protocols import KeyValue, StaleRevision
from engine.deploy.gc import GcReport
from engine.errors import SvcError

CHECK_SECONDS = 3600.0
DAY_NS = 24 * 3600 * 10**9
_LAST_RUN_KEY = "swept"


async def run_gc_daily(
    cells: KeyValue,
    collect: Callable[[], Awaitable[GcReport]],
    log: Callable[[str, str], None],
    *,
    now_ns: Callable[[], int] = time.time_ns,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Check every hour, first after an hour, and collect a day after the last run; never returns.

    `log` takes a level and a line. `now_ns` returns the Unix time in ns; `wait` takes seconds.
    """
    while True:
        await wait(CHECK_SECONDS)
        try:
            if not await _claim_run(cells, now_ns()):
                continue
            report = await collect()
        except SvcError as error:
            log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)
            continue
        if report != GcReport(0, 0, 0):
            log(
                "info",
                f"removed what no deployment needs: {report.blobs} blobs of {report.size} bytes,"
                f" {report.unpacked} unpacked packages, {report.machine_code} files of machine code,"
                f" {report.uploads} abandoned uploads",
            )


async def _claim_run(cells: KeyValue, now_ns: int) -> bool:
    """Return whether a run is due, and record it. A last run in the future is ignored (clock change)."""
    cell = await cells.get(_LAST_RUN_KEY)
    if cell is not None and 0 <= now_ns - _time(cell.value) < DAY_NS:
        return False
    revision = cell.revision if cell is not None else None
    return not isinstance(await cells.cas(_LAST_RUN_KEY, str(now_ns).encode(), revision), StaleRevision)


def _time(value: bytes) -> int:
    return int(value) if value.isdigit() else 0
