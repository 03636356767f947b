"""Requests a second of a Rust hello by two processes against one: 64 connections, rounds interleaved."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.hello import rate, write_project
from bench.processes import write_results
from bench.service import hosted

ROUNDS = 5
CONNECTIONS = 64


def main() -> None:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        project = write_project(folder, "rust")
        ports = {count: stack.enter_context(hosted(project, "--workers", str(count))) for count in rates}
        for port in ports.values():
            rate(port, CONNECTIONS)
        for number in range(ROUNDS):
            for count, port in ports.items():
                rates[count].append(rate(port, CONNECTIONS))
            told = "  ".join(f"{count}: {found[-1]:.0f}/s" for count, found in rates.items())
            print(f"round {number + 1}: workers {told}", flush=True)
    ratio = median(two / one for one, two in zip(rates[1], rates[2], strict=True))
    write_results("workers", {"two": ratio, **{f"{n}_per_second": median(r) for n, r in rates.items()}})
    print(f"workers two={ratio:.2f} of one")


if __name__ == "__main__":
    main()
