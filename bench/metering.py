"""Cost of metering and limits: hello requests with all of them, against a service without.

Other tenants change the machine's speed by a third, for seconds at a time. Both services are therefore loaded
by turns of a fraction of a second. The memory layout of a process affects its speed for its life, so both
are restarted several times. The results are medians of the ratios per turn: requests per second, and CPU time
per request.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import unmetered
from bench.guests import LANES
from bench.hello import CONNECTIONS, WEB, rate, write_project
from bench.load import Load
from bench.processes import write_results
from bench.service import Serving, bundle, deploy

STARTS = 6
TURNS = 80
SECONDS = 0.15
PROGRAMS = ("svc_tui", "bench.unmetered")
MEMORY = {"rust": 2 << 20, "js": 16 << 20, "go": 8 << 20}
"""Bytes that an instance of each lane has, in round figures."""


@contextmanager
def started(servers: list[Serving]) -> Iterator[None]:
    """Run services until the block exits."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            if server.process is not None:
                server.stop()


def turn(server: Serving, load: Load) -> tuple[float, float]:
    """Load a service for a turn; return its seconds and its processor seconds a request."""
    assert server.process is not None
    clock = ~server.process.pid << 3 | 2  # CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) makes it.
    began, spent = time.perf_counter(), time.clock_gettime(clock)
    done = load.run(SECONDS)
    requests = done["requests"] + load.settle()
    if done["failed"]:
        sys.exit(f"{done['failed']} requests failed")
    return (time.perf_counter() - began) / requests, (time.clock_gettime(clock) - spent) / requests


def shares(servers: list[Serving]) -> Iterator[tuple[float, float]]:
    """Yield, turn by turn, what meters take of requests a second, and add to the processor time of one."""
    loads = [Load(server.port, WEB, CONNECTIONS, 0) for server in servers]
    for number in range(TURNS):
        order = (0, 1) if number % 2 else (1, 0)
        found = {which: turn(servers[which], loads[which]) for which in order}
        (metered, metered_spent), (bare, bare_spent) = found[0], found[1]
        yield 1 - bare / metered, metered_spent / bare_spent - 1


def compare(folder: Path, lane: str) -> tuple[float, float]:
    """Return the medians of what turns of a lane's hello said."""
    os.environ[unmetered.MEMORY] = str(MEMORY[lane])
    built = bundle(write_project(folder, lane))
    servers = [Serving(folder / lane / "data" / program, program=program) for program in PROGRAMS]
    with started(servers):
        for server in servers:
            with server.client() as client:
                deploy(client, built)
    found: list[tuple[float, float]] = []
    for number in range(STARTS):
        with started(servers):
            for server in servers:
                rate(server.port)
            found += shares(servers)
        rates, times = map(median, zip(*found[-TURNS:], strict=True))
        print(f"{lane}: start {number + 1}: meters take {rates:+.1%}, add {times:+.1%}", flush=True)
    rates, times = map(median, zip(*found, strict=True))
    return rates, times


def main() -> None:
    lanes = sys.argv[1:] or LANES
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as folder:
        found = {lane: compare(Path(folder), lane) for lane in lanes}
    rates = {lane: share for lane, (share, _) in found.items()}
    times = {f"{lane}_cpu": share for lane, (_, share) in found.items()}
    write_results("metering", {**rates, **times})
    text = [f"{lane}={rate:+.1%} {lane}_cpu={time:+.1%}" for lane, (rate, time) in found.items()]
    print("metering", *text, "of an unmetered hello")


if __name__ == "__main__":
    main()
