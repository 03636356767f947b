"""How much jobs that are due delay visitors: 99th percentile of a hello with and without them.

`python -m bench.jobs [N]` adds N jobs (default: 10,000) to a project on a service, all due at once, while a
client asks another js resource of it for a hello, one request at a time. Rounds with and without jobs
alternate, so that both see the same machine, and one with jobs lasts until all have run; the median of their
ratios counts. The resident set of the service is that before the first jobs, and its peak.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from httpx import AsyncClient

from bench.fairness import latencies
from bench.memory import memory_of
from bench.processes import write_results
from bench.service import DOMAIN, Serving, bundle, deploy
from engine.cancellation import cancel
from svc_tui.client import Client

ROUNDS = 3
JOBS = PIECE = 10_000
"""By default, and those that one transaction adds: a statement has a few seconds."""
TARGET = 2.0
HOST = f"web--shop.{DOMAIN}"
MANIFEST = """\
[project]
name = "shop"

[resource.web]
lane = "js"
public = true
workdir = "web"

[resource.worker]
lane = "js"
workdir = "worker"
"""
WEB = """\
import { tables } from '@svc/guest';

export default {
  async fetch(request) {
    if (request.method === 'POST') await tables.exec(await request.text());
    return new Response('hello\\n');
  },
};
"""
WORKER = """\
export default {
  async fetch(request) {
    const { id } = await request.json();
    return new Response(null, { status: id > 0 ? 204 : 500 });
  },
};
"""
ADD = """\
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
INSERT INTO _svc_jobs_add (resource, path, body) SELECT 'worker', '/work', json_object('id', i) FROM n
"""


def write_project(folder: Path) -> Path:
    """Write the project."""
    project = folder / "shop"
    for name, source in (("web", WEB), ("worker", WORKER)):
        (project / name).mkdir(parents=True)
        (project / name / "index.js").write_text(source)
    (project / "svc.toml").write_text(MANIFEST)
    return project


class Service:
    """The service, its peak of memory, and the jobs that it ran and their seconds."""

    def __init__(self, serving: Serving, client: Client) -> None:
        assert serving.process is not None
        self.port, self._pid, self._client = serving.port, serving.process.pid, client
        self.peak, self.done, self.seconds = 0, 0, 0.0

    def waiting(self) -> int:
        """Return how many jobs have not ended."""
        counts = self._client.call("GET", "/v1/projects/shop/jobs?limit=1")
        return int(counts["waiting"] + counts["running"])

    async def add(self, jobs: int) -> None:
        """Add jobs through a guest."""
        async with AsyncClient(timeout=60) as client:
            url, host = f"http://127.0.0.1:{self.port}/", {"host": HOST}
            for begin in range(0, jobs, PIECE):
                content = ADD.format(min(PIECE, jobs - begin))
                (await client.post(url, content=content, headers=host)).raise_for_status()

    def rss(self) -> int:
        """Return the resident set in bytes."""
        self.peak = max(self.peak, size := memory_of(self._pid).rss)
        return size

    async def _watch(self) -> None:
        while True:
            self.rss()
            await asyncio.sleep(0.05)

    async def busy(self, jobs: int) -> float:
        """Return the 99th percentile beside jobs that are due."""
        watching = asyncio.create_task(self._watch())
        await self.add(jobs)
        began, times = time.perf_counter(), list[float]()
        while await asyncio.to_thread(self.waiting):
            times += await latencies(self.port, HOST)
            self.seconds += time.perf_counter() - began
            began = time.perf_counter()
        self.done += jobs
        await cancel([watching])
        return quantiles(times, n=100)[98]

    async def idle(self) -> float:
        """Return the 99th percentile without jobs."""
        return quantiles(await latencies(self.port, HOST), n=100)[98]

    async def measure(self, jobs: int) -> list[tuple[float, float]]:
        """Return the percentiles of each round."""
        await self.busy(100)
        self.peak, self.done, self.seconds, before = 0, 0, 0.0, self.rss()
        found = []
        for number in range(ROUNDS):
            found.append((await self.idle(), await self.busy(jobs)))
            print(f"round {number + 1}: idle {found[-1][0]:.1f} ms  busy {found[-1][1]:.1f} ms", flush=True)
        print(f"memory: RSS {before >> 20} MiB before, at most {self.peak >> 20} MiB")
        return found


def main(jobs: int) -> None:
    """Run the rounds, and print the medians."""
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        serving = Serving(Path(folder) / "data")
        serving.start()
        try:
            with serving.client() as client:
                deploy(client, bundle(write_project(Path(folder))))
                service = Service(serving, client)
                found = asyncio.run(service.measure(jobs))
        finally:
            serving.stop()
    idle, busy = (median(each[side] for each in found) for side in (0, 1))
    ratio, rate = median(busy / idle for idle, busy in found), service.done / service.seconds
    write_results(
        "jobs", {"due": jobs, "idle_p99_ms": idle, "busy_p99_ms": busy, "ratio": ratio, "jobs_s": rate}
    )
    print(f"target: a ratio of at most {TARGET:g}")
    print(
        f"jobs due={jobs} idle_p99_ms={idle:.1f} busy_p99_ms={busy:.1f} ratio={ratio:.2f} jobs_s={rate:.0f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)
