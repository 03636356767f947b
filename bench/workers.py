"""Requests a second of a Rust hello by two processes against one: 64 connections, rounds interleaved.

On two processors the client shares them with the two servers, so `wrk` loads them where it is installed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.hello import SECONDS, WEB, rate, write_project
from bench.processes import write_results
from bench.service import hosted

ROUNDS = 5
CONNECTIONS = 64


def loaded(port: int) -> float:
    """Load a server for one round; return its requests a second."""
    if shutil.which("wrk") is None:
        return rate(port, CONNECTIONS)
    host, _, path = WEB.partition("/")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS:.0f}s", "-H", f"Host: {host}"]
    told = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/{path}"], capture_output=True, text=True, check=True
    ).stdout
    if failed := re.search(r"Non-2xx.*|Socket errors:.*", told):
        sys.exit(failed[0])
    found = re.search(r"Requests/sec:\s*([\d.]+)", told)
    assert found is not None, told
    return float(found[1])


def main() -> None:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        project = write_project(folder, "rust")
        ports = {count: stack.enter_context(hosted(project, "--workers", str(count))) for count in rates}
        for port in ports.values():
            loaded(port)
        for number in range(ROUNDS):
            for count, port in ports.items():
                rates[count].append(loaded(port))
            told = "  ".join(f"{count}: {found[-1]:.0f}/s" for count, found in rates.items())
            print(f"round {number + 1}: workers {told}", flush=True)
    ratio = median(two / one for one, two in zip(rates[1], rates[2], strict=True))
    write_results("workers", {"two": ratio, **{f"{n}_per_second": median(r) for n, r in rates.items()}})
    print(f"workers two={ratio:.2f} of one")


if __name__ == "__main__":
    main()
