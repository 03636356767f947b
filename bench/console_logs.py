"""Logs under load: a timeline of a million records and 5,000 more a second, in the real Console.

How late the event loop of the screen is, from opening Logs on; what the process takes of the processor and
of memory; how long it takes until the last records are seen, and until all are counted. `idle_p99` is how
late an idle loop was at the same time, in its own process: the delay of the machine.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.console_app import lags, p99
from bench.console_engine import in_terminal, project
from bench.console_timeline import fill
from bench.processes import ROOT

RECORDS = 1_000_000
RATE = 5_000
SECONDS = 30.0
START_SECONDS = 30.0
SETTLE_SECONDS = 2.0


def figures(seconds: float = SECONDS, records: int = RECORDS, rate: float = RATE) -> dict[str, float]:
    """Return times in milliseconds (`first_ms`, `all_ms`, `lag_p99`, `lag_max`), `rss` in MB, and `cpu`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root, result = project(folder), folder / "found.json"
        fill(root, records)
        writer = [sys.executable, "-m", "bench.console_timeline", str(root), str(rate)]
        shown = [sys.executable, "-m", "bench.console_app", str(root), str(seconds), str(result)]
        with in_terminal(shown, root) as terminal:
            process, output = terminal.process, terminal.output
            writing = subprocess.Popen(
                [*writer, str(seconds + START_SECONDS)], env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
            try:
                idle = asyncio.run(lags(seconds + SETTLE_SECONDS))
                process.wait(4 * START_SECONDS)
            except subprocess.TimeoutExpired:
                raise SystemExit(
                    f"the Console did not end; it wrote last: {bytes(output[-2000:])!r}"
                ) from None
            finally:
                writing.terminate()
                writing.wait()
        if not result.exists():
            raise SystemExit(f"the Console failed; it wrote last: {bytes(output[-2000:])!r}")
        found: dict[str, float] = json.loads(result.read_text())
    return found | {"idle_p99": p99(idle)}


if __name__ == "__main__":
    print(json.dumps(figures(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS), indent=1))
