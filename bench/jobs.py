"""How much jobs that are due delay visitors: 99th percentile of a hello with and without them.

`python -m bench.jobs [N [WORKERS]]` adds N jobs (default: 10,000, at most 100,000) to a project on a service,
all due at once, while a client asks another js resource of it for a hello, one request at a time. Each job
writes a row, so that in the end each must have run once. Rounds with and without jobs alternate, so that both
see the same machine, and one with jobs lasts until all have run; the median of their ratios counts. Above
10,000 jobs there is one round. The resident set is that of the service and its workers before the first jobs,
and its peak; the time of a list is the longest of a page of 1,000 jobs while jobs run.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from httpx import AsyncClient

from bench.fairness import latencies
from bench.processes import write_results
from bench.service import DOMAIN, Serving, bundle, deploy
from engine.cancellation import cancel
from engine.wasm.execution.memory_budget import ResidentSet
from svc_tui.client import Client

ROUNDS = 3
WARM, JOBS, PIECE = 100, 10_000, 2500
"""Jobs before the first round, by default, and of one statement: a request that writes has 5 s."""
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
import { tables } from '@svc/guest';

export default {
  async fetch(request) {
    await tables.exec`INSERT INTO ran (job) VALUES (${request.headers.get('x-svc-job')})`;
    return new Response(null, { status: 204 });
  },
};
"""
MIGRATION = "CREATE TABLE ran (id INTEGER PRIMARY KEY, job TEXT NOT NULL);"
RAN = "SELECT count(*) AS runs, count(DISTINCT job) AS jobs FROM ran"
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
    (project / "tables").mkdir()
    (project / "tables" / "001_ran.sql").write_text(MIGRATION)
    (project / "svc.toml").write_text(MANIFEST)
    return project


def processes(pid: int) -> list[int]:
    """Return a process and those that it started."""
    children = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(found for child in " ".join(children).split() for found in processes(int(child)))]


class Service:
    """The service, its peak of memory, the jobs that it ran and their seconds, and the slowest list."""

    def __init__(self, serving: Serving, client: Client) -> None:
        assert serving.process is not None
        self.port, self._pid, self._client = serving.port, serving.process.pid, client
        self.peak, self.done, self.seconds, self.list_seconds = 0, 0, 0.0, 0.0

    def waiting(self) -> int:
        """Return how many jobs have not ended."""
        began = time.perf_counter()
        counts = self._client.call("GET", "/v1/projects/shop/jobs", params={"limit": 1000})
        self.list_seconds = max(self.list_seconds, time.perf_counter() - began)
        return int(counts["waiting"] + counts["running"])

    def check(self) -> None:
        """Raise an error unless each job ran once."""
        (ran,) = self._client.call("POST", "/v1/projects/shop/sql", {"sql": RAN})["rows"]
        assert ran["runs"] == ran["jobs"] == self.done, (ran, self.done)

    async def add(self, jobs: int) -> None:
        """Add jobs through a guest."""
        async with AsyncClient(timeout=60) as client:
            url, host = f"http://127.0.0.1:{self.port}/", {"host": HOST}
            for begin in range(0, jobs, PIECE):
                content = ADD.format(min(PIECE, jobs - begin))
                (await client.post(url, content=content, headers=host)).raise_for_status()

    def rss(self) -> int:
        """Return the resident set in bytes."""
        self.peak = max(self.peak, size := sum(ResidentSet(each).read() for each in processes(self._pid)))
        return size

    async def _watch(self) -> None:
        while True:
            self.rss()
            await asyncio.sleep(0.2)

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
        await self.busy(WARM)
        self.peak, self.seconds, self.list_seconds, before = 0, 0.0, 0.0, self.rss()
        found = []
        for number in range(ROUNDS if jobs <= JOBS else 1):
            found.append((await self.idle(), await self.busy(jobs)))
            print(f"round {number + 1}: idle {found[-1][0]:.1f} ms  busy {found[-1][1]:.1f} ms", flush=True)
        self.check()
        print(f"memory: RSS {before >> 20} MiB before, at most {self.peak >> 20} MiB")
        print(f"slowest list of 1,000 jobs: {self.list_seconds * 1000:.0f} ms")
        return found


def main(jobs: int, workers: int) -> None:
    """Run the rounds, and print the medians."""
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        serving = Serving(Path(folder) / "data", "--workers", str(workers))
        serving.start()
        try:
            with serving.client() as client:
                deploy(client, bundle(write_project(Path(folder))))
                service = Service(serving, client)
                found = asyncio.run(service.measure(jobs))
        finally:
            serving.stop()
    idle, busy = (median(each[side] for each in found) for side in (0, 1))
    ratio, rate = median(busy / idle for idle, busy in found), (service.done - WARM) / service.seconds
    write_results(
        "jobs", {"due": jobs, "idle_p99_ms": idle, "busy_p99_ms": busy, "ratio": ratio, "jobs_s": rate}
    )
    print(f"target: a ratio of at most {TARGET:g}")
    print(
        f"jobs due={jobs} idle_p99_ms={idle:.1f} busy_p99_ms={busy:.1f} ratio={ratio:.2f} jobs_s={rate:.0f}"
    )


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *(JOBS, 1)[len(given) :])
