"""The Console with Logs open for some seconds, in a terminal, watched from inside: how late its loop is.

`python -m bench.console_app FOLDER SECONDS FILE` writes what it found to the file, as JSON.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from engine.http.sockets import bind, raise_fd_limit
from engine.manifest.load import load
from screens.logs.screen import LogsScreen
from screens.widgets.virtual_list import VirtualRows
from svc_tui.console.app import Console
from svc_tui.console.engine import EmbeddedEngine
from svc_tui.console.start import LoginActions

SAMPLE_SECONDS = 0.005
LOOK_SECONDS = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """Return this process's memory, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6


class Watched(Console):
    """The Console, which opens Logs once its engine answers, and ends by itself."""

    def __init__(self, attachment: EmbeddedEngine, seconds: float) -> None:
        super().__init__(attachment, LoginActions())
        self._seconds = seconds
        self.found: dict[str, float] = {}

    def on_mount(self) -> None:
        """Begin to watch."""
        super().on_mount()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await _until(lambda: self._client.state == "live")
        sampling = asyncio.create_task(lags(self._seconds))
        began = time.monotonic()
        self.action_tab("logs")
        await _until(lambda: isinstance(self.screen, LogsScreen) and self.screen.is_mounted)
        screen, rows = self.screen, self.screen.query_one(VirtualRows)
        await _until(lambda: rows.row(rows.count - 1) is not None)
        self.found["first_ms"] = (time.monotonic() - began) * 1e3
        await _until(lambda: "records" in str(screen.query_one("#state").render()))
        self.found["all_ms"] = (time.monotonic() - began) * 1e3
        self.found["rss_begin"] = resident()
        spent, drawn, steady = time.process_time(), time.thread_time(), time.monotonic()
        late = await sampling
        passed = time.monotonic() - steady
        self.found |= {
            "cpu": (time.process_time() - spent) / passed,
            "cpu_screen": (time.thread_time() - drawn) / passed,
            "lag_p99": p99(late),
            "lag_max": max(late),
            "rss": resident(),
            "rows": float(rows.count),
            "following": float(rows.following),
        }
        self.exit()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what is watched knows nothing of it
        await asyncio.sleep(LOOK_SECONDS)


async def lags(seconds: float) -> list[float]:
    """Return how late the loop was, in milliseconds, for each of many short waits."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        await asyncio.sleep(SAMPLE_SECONDS)
        found.append(max(time.perf_counter() - before - SAMPLE_SECONDS, 0.0) * 1e3)
    return found


def p99(found: list[float]) -> float:
    """Return what 99 of 100 do not exceed."""
    return sorted(found)[int(len(found) * 0.99)]


def main(folder: Path, seconds: float, result: Path) -> None:
    """Show the Console and write what was found."""
    raise_fd_limit()
    attachment = EmbeddedEngine(folder, load(folder).name, bind("localhost", 0))
    app = Watched(attachment, seconds)
    try:
        app.run()
    finally:
        attachment.stop()
    result.write_text(json.dumps(app.found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
