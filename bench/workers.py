"""Requests a second of a Rust hello by two processes against one: 64 connections, rounds interleaved.

On two processors the client shares them with the two servers, so `wrk` loads them where it is installed.
The roof is what two processes that only compute do against one, in the same rounds: less than 2 where
something else wants the processors, too.
"""

import multiprocessing
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.hello import SECONDS, WEB, rate, write_project
from bench.processes import write_results
from bench.service import hosted

ROUNDS = 12
CONNECTIONS = 64
SPIN_SECONDS = 1.0


def loaded(port: int) -> float:
    """Load a server for one round; return its requests a second."""
    if shutil.which("wrk") is None:
        return rate(port, CONNECTIONS)
    host, _, path = WEB.partition("/")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS:.0f}s", "-H", f"Host: {host}"]
    text = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/{path}"], capture_output=True, text=True, check=True
    ).stdout
    if failed := re.search(r"Non-2xx.*|Socket errors:.*", text):
        sys.exit(failed[0])
    found = re.search(r"Requests/sec:\s*([\d.]+)", text)
    assert found is not None, text
    return float(found[1])


def spin(_number: int) -> float:
    """Compute for a while; return the rounds a second."""
    began, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < SPIN_SECONDS:
        sum(range(10_000))
        count += 1
    return count / elapsed


def main() -> None:
    roofs: list[float] = []
    rates: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        project = write_project(folder, "rust")
        ports = {count: stack.enter_context(hosted(project, "--workers", str(count))) for count in rates}
        for port in ports.values():
            loaded(port)
        spinning = stack.enter_context(multiprocessing.get_context("spawn").Pool(2))
        for number in range(ROUNDS):
            for count, port in ports.items():
                rates[count].append(loaded(port))
            roofs.append(sum(spinning.map(spin, range(2))) / spinning.apply(spin, (0,)))
            text = "  ".join(f"{count}: {found[-1]:.0f}/s" for count, found in rates.items())
            print(f"round {number + 1}: workers {text}  roof {roofs[-1]:.2f}", flush=True)
    ratio, roof = median(two / one for one, two in zip(rates[1], rates[2], strict=True)), median(roofs)
    per_second = {f"{count}_per_second": median(found) for count, found in rates.items()}
    write_results("workers", {"two": ratio, "roof": roof, **per_second})
    print(f"workers two={ratio:.2f} of one, roof {roof:.2f}")


if __name__ == "__main__":
    main()
