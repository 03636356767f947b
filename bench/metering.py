"""What meters and limits cost: hellos of a server with all of them, against one that has none.

Rounds are interleaved, and which side begins alternates; the medians of their ratios count: of requests a
second, and of processor time a request.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.hello import SECONDS, rate, write_project
from bench.memory import held
from bench.processes import svc_dev_process, write_results

ROUNDS = 16
LANES = ("rust", "js")
PROGRAMS = ("svc_tui", "bench.unmetered")


def round_of(port: int, pid: int) -> tuple[float, float]:
    """Load a server for one round; return requests a second, and processor seconds a request."""
    began = held(pid).cpu_seconds
    per_second = rate(port, path="/")
    return per_second, (held(pid).cpu_seconds - began) / (per_second * SECONDS)


def compare(folder: Path, lane: str) -> tuple[float, float]:
    """Return the shares that meters take of a lane's requests a second, and add to its processor time."""
    project = write_project(folder, lane)
    rates, times = [], []
    with ExitStack() as stack:
        servers = [
            stack.enter_context(svc_dev_process(project, "--release", program=program))
            for program in PROGRAMS
        ]
        for server in servers:
            rate(server[0], path="/")
        for number in range(ROUNDS):
            order = (0, 1) if number % 2 else (1, 0)
            found = {which: round_of(*servers[which]) for which in order}
            rates.append(1 - found[0][0] / found[1][0])
            times.append(found[0][1] / found[1][1] - 1)
            print(f"{lane}: metered {found[0][0]:.0f}/s, unmetered {found[1][0]:.0f}/s", flush=True)
    return median(rates), median(times)


def main() -> None:
    lanes = sys.argv[1:] or LANES
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        found = {lane: compare(Path(folder), lane) for lane in lanes}
    rates = {lane: share for lane, (share, _) in found.items()}
    times = {f"{lane}_cpu": share for lane, (_, share) in found.items()}
    write_results("metering", {**rates, **times})
    told = [f"{lane}={rate:+.1%} {lane}_cpu={time:+.1%}" for lane, (rate, time) in found.items()]
    print("metering", *told, "of an unmetered hello")


if __name__ == "__main__":
    main()
