"""How much a heavy guest delays a light one: 99th percentile of a hello, beside a guest that loops or not.

Two kinds of heavy guests: one computes and never calls its host, one asks its host for the time without end
(host calls are Python, and share the interpreter with the event loop). Rounds are interleaved, so that all
sides see the same machine; the median of their ratios counts.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median, quantiles

from bench.processes import svc_dev, write_results

ROUNDS = 5
REQUESTS = 600
PAUSE = 0.004
"""Seconds between an answer and the next request: the machine has time to spare."""
TARGET = 3.0
HEAVY = {"compute": "/loop", "calls": "/calls"}
MANIFEST = '[project]\nname = "fair"\n\n[resource.web]\nlane = "js"\npublic = true\nrun_limit_secs = 900\n'
SOURCE = """\
export default {
  fetch(request) {
    const path = new URL(request.url).pathname;
    if (path === '/loop') for (;;);
    if (path === '/calls') for (;;) performance.now();
    return new Response('hello\\n');
  },
};
"""


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def heavy(port: int, path: str | None) -> AsyncIterator[None]:
    """Run a guest that never ends, until the block exits."""
    if path is None:
        yield
        return
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request(path))
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        writer.close()
        await asyncio.sleep(1.5)


async def latencies(port: int) -> list[float]:
    """Ask for the hello, one request at a time; return what each took in milliseconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        writer.write(_request("/"))
        await reader.readuntil(b"hello\n")
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE)
    writer.close()
    return took


async def measure(port: int) -> dict[str, list[float]]:
    """Return the 99th percentile of each round, by what ran beside it."""
    found: dict[str, list[float]] = {name: [] for name in ("idle", *HEAVY)}
    for number in range(ROUNDS):
        for name in found:
            async with heavy(port, HEAVY.get(name)):
                found[name].append(quantiles(await latencies(port), n=100)[98])
        told = "  ".join(f"{name} {values[-1]:.1f} ms" for name, values in found.items())
        print(f"round {number + 1}: {told}", flush=True)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        project = Path(folder)
        (project / "svc.toml").write_text(MANIFEST)
        (project / "index.js").write_text(SOURCE)
        with svc_dev(project, "--release") as port:
            asyncio.run(latencies(port))
            found = asyncio.run(measure(port))
    ratios = {
        name: median(ours / idle for ours, idle in zip(found[name], found["idle"], strict=True))
        for name in HEAVY
    }
    milliseconds = {f"{name}_p99_ms": median(values) for name, values in found.items()}
    write_results("fairness", {**ratios, **milliseconds})
    told = " ".join(f"{name}={ratio:.2f}" for name, ratio in ratios.items())
    print(f"fairness {told} times the p99 of an idle service (target: less than {TARGET:g})")


if __name__ == "__main__":
    main()
