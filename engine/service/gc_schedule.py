"""Daily garbage collection.

The bucket stores the time of the last run, so restarts neither repeat nor delay it. One node of a fleet
collects. The others then remove files of their own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from engine.bucket.protocols import KeyValue, StaleRevision
from engine.deploy.gc import GcReport
from engine.errors import SvcError

CHECK_SECONDS = 3600.0
DAY_NS = 24 * 3600 * 10**9
_LAST_RUN_KEY = "swept"


class Collect(Protocol):
    """A function that collects garbage, as `Deployer.collect_garbage` does."""

    def __call__(self, *, files_only: bool = False) -> Awaitable[GcReport]:
        """Collect garbage; with `files_only`, only uploads and other files of this machine."""


async def run_gc_daily(
    cells: KeyValue,
    collect: Collect,
    log: Callable[[str, str], None],
    *,
    now_ns: Callable[[], int] = time.time_ns,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Check every hour, first after an hour, and collect a day after the last run; never returns.

    `log` takes a level and a line. `now_ns` returns the Unix time in ns; `wait` takes seconds.
    """
    known: bytes | None = None
    while True:
        await wait(CHECK_SECONDS)
        try:
            claimed, run = await _claim_run(cells, now_ns())
            other_node = not claimed and known is not None and run != known
            known = run
            if not claimed and not other_node:
                continue
            report = await collect(files_only=other_node)
        except SvcError as error:
            log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)
            continue
        if report != GcReport(0, 0, 0):
            log(
                "info",
                f"removed what no deployment needs: blobs {report.blobs} ({report.size} bytes),"
                f" unpacked packages {report.unpacked}, files of machine code {report.machine_code},"
                f" abandoned uploads {report.uploads}",
            )


async def _claim_run(cells: KeyValue, now_ns: int) -> tuple[bool, bytes]:
    """Return whether a run is due, and the last run; record a due one.

    A last run in the future is ignored (clock change).
    """
    cell = await cells.get(_LAST_RUN_KEY)
    if cell is not None and 0 <= now_ns - _time(cell.value) < DAY_NS:
        return False, cell.value
    revision, run = cell.revision if cell is not None else None, str(now_ns).encode()
    if isinstance(await cells.cas(_LAST_RUN_KEY, run, revision), StaleRevision):
        return False, cell.value if cell is not None else b""
    return True, run


def _time(value: bytes) -> int:
    return int(value) if value.isdigit() else 0
