"""The Console as a program: from its start to the first paint, from a key to the paint, and its memory.

Logs shows 10,000 records. An application of the same toolkit with a text only is measured in the same run, in
rounds that take turns: what the Console takes more is its own.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from bench.console_engine import GIVE_UP, Shown, in_terminal, project
from bench.console_timeline import fill

ROUNDS = 3
RECORDS = 10_000
KEYS = 100
QUIET_SECONDS = 0.05
"""Time without output before a key."""
_LOOK_SECONDS = 0.0002
_UP = b"\x1b[A"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CONSOLE = [sys.executable, "-m", "svc_tui", "console", "--port", "0"]
ROOF = [sys.executable, "-m", "bench.console_roof"]


def plain_text(shown: Shown) -> str:
    """Return the output without control codes."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bytes(shown.output).decode(errors="replace"))


def resident(process: int) -> float:
    """Return the memory of a process in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6


def key_latencies(shown: Shown) -> list[float]:
    """Press keys one by one; return the milliseconds until each changed the screen."""
    found = []
    for _ in range(KEYS):
        _quiet(shown)
        before, began = shown.written, time.perf_counter()
        os.write(shown.keyboard, _UP)
        _until(lambda before=before: shown.written > before, "no key changed the screen")  # type: ignore[misc]
        found.append((time.perf_counter() - began) * 1e3)
    return found


def run(command: list[str], folder: Path, text: str, opening: tuple[bytes, str] | None) -> dict[str, float]:
    """Return `paint_ms`, `key_p95_ms` and `rss` of a program whose first screen has a text.

    `opening` is a key that opens another screen, and a text of that one.
    """
    began = time.perf_counter()
    with in_terminal(command, folder) as shown:
        _until(lambda: text in plain_text(shown), f"{text!r} was not shown")
        painted = (time.perf_counter() - began) * 1e3
        if opening is not None:
            key, expected = opening
            _until(lambda: "live" in plain_text(shown), "the engine did not start")
            os.write(shown.keyboard, key)
            _until(lambda: expected in plain_text(shown), f"{expected!r} was not shown")
        latencies = key_latencies(shown)
        return {
            "paint_ms": painted,
            "key_p95_ms": quantiles(latencies, n=20)[-1],
            "rss": resident(shown.process.pid),
        }


def figures() -> dict[str, float]:
    """Return medians of the Console, those of the empty application as `roof_`, and `_ratio` of both."""
    times, roof = [], []
    with tempfile.TemporaryDirectory() as temporary:
        root = project(Path(temporary))
        fill(root, RECORDS)
        for _ in range(ROUNDS):
            roof.append(run(ROOF, root, "ready", None))
            times.append(run(CONSOLE, root, "bench", (b"3", "records")))
    found = {}
    for name in ("paint_ms", "key_p95_ms", "rss"):
        found[name] = median(each[name] for each in times)
        found[f"roof_{name}"] = median(each[name] for each in roof)
        found[f"{name.removesuffix('_ms')}_ratio"] = median(
            a[name] / b[name] for a, b in zip(times, roof, strict=True)
        )
    return found


def _quiet(shown: Shown) -> None:
    """Wait until nothing is written."""
    while True:
        before = shown.written
        time.sleep(QUIET_SECONDS)
        if shown.written == before:
            return


def _until(holds: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + GIVE_UP
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(problem)
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    print(json.dumps(figures(), indent=1))
