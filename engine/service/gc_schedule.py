"""Daily garbage collection.

The bucket stores the time of the last run, so restarts neither repeat nor delay it. One node of a fleet
collects. The others then remove files of their own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from engine.bucket.protocols import KeyValue
from engine.deploy.gc import GcReport
from engine.errors import SvcError

CHECK_SECONDS = 3600.0
DAY_NS = 24 * 3600 * 10**9
_LAST_RUN_KEY = "swept"


async def run_gc_daily(
    cells: KeyValue,
    collect: Callable[..., Awaitable[GcReport]],
    log: Callable[[str, str], None],
    *,
    now_ns: Callable[[], int] = time.time_ns,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Check every hour, first after an hour, and collect a day after the last run; never returns.

    `collect` gets `files_only`: only uploads and other files of this machine are to be removed. `log` takes a
    level and a line. `now_ns` returns the Unix time in ns; `wait` takes seconds.
    """
    known: bytes | None = None
    while True:
        await wait(CHECK_SECONDS)
        try:
            cell, now = await cells.get(_LAST_RUN_KEY), now_ns()
            run, revision = (cell.value, cell.revision) if cell is not None else (b"", None)
            new = str(now).encode()
            # A last run in the future is ignored: the clock was changed.
            due = not (run.isdigit() and 0 <= now - int(run) < DAY_NS)
            claimed = due and isinstance(await cells.cas(_LAST_RUN_KEY, new, revision), int)
            other_node = not claimed and known not in (None, run)
            known = new if claimed else run
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
