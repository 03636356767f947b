"""Tables of a fleet: acknowledged writes per second on one node and on three at once, fresh and stale reads.

Three nats-servers, and a process for each node that writes, run on this machine. A client sends its next
request when it has the answer to the last one.
"""

import asyncio
import json
import multiprocessing
import queue
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.processes import write_results
from doors.tables.door import ProjectTables, TablesDoor
from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.owner import open_for_writing
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.node import FleetNode, cluster_address
from engine.fleet.tables_log import TablesLog
from tests.engine.fleet.cluster import running

NODES = ("a", "b", "c")
SECONDS = 8.0
CALLER = Caller("bench", "fleet")
CREATE = "CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT)"
INSERT = {"sql": "INSERT INTO entries (text) VALUES ('a text')"}
READ = {"sql": "SELECT id, text FROM entries WHERE id = 1"}
RUNS = (
    ("write", INSERT, "exec", "a", 1),
    ("write", INSERT, "exec", "a", 32),
    ("write", INSERT, "exec", "abc", 1),
    ("write", INSERT, "exec", "abc", 8),
    ("fresh read", READ, "query", "a", 1),
    ("fresh read", READ, "query", "a", 32),
    ("stale read", READ | {"stale_ok": True}, "query", "a", 32),
)
"""Kind, body and path of the requests; nodes; clients of each."""


async def send(tables: ProjectTables, path: str, body: bytes) -> None:
    request = DoorRequest("POST", f"/v1/{path}", query="", headers=(), body=body, caller=CALLER)
    answer = tables.answer(request)
    response = answer if isinstance(answer, DoorResponse) else await answer
    assert response.status == 200, response.body


async def measure(folder: Path, root: Path, name: str, run: int, started: Any) -> list[float]:
    """Return how long each request of a node took."""
    _, document, path, _, clients = RUNS[run]
    bucket = await JetStreamBucket.open(
        cluster_address(folder, FleetNode.read(folder)), f"run{run}", folder / "uploads"
    )
    log = TablesLog(bucket.connection, bucket.namespace, "bench", name, lambda: set(NODES))
    replicas = Replicas(log, root / name)
    replicas.start()
    data = root / name / f"run{run}"
    tables = TablesDoor().open(DoorContext(data.name, data / "tables", print))
    body, times = json.dumps(document).encode(), list[float]()

    def prepare() -> None:
        if name == "a":
            with open_for_writing(data) as connection:
                connection.execute(f"BEGIN IMMEDIATE; {CREATE}; INSERT INTO entries VALUES (1, 'x'); COMMIT")
        started.wait()

    await asyncio.to_thread(prepare)
    await send(tables, "query", json.dumps(READ).encode())
    end = time.monotonic() + SECONDS

    async def client() -> None:
        while (began := time.monotonic()) < end:
            await send(tables, path, body)
            times.append(time.monotonic() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    await asyncio.to_thread(started.wait)
    await tables.aclose()
    await replicas.aclose()
    await bucket.aclose()
    return sorted(times)


def run_node(folder: Path, root: Path, name: str, run: int, started: Any, results: Any) -> None:
    results.put((name, asyncio.run(measure(folder, root, name, run, started))))


def run_nodes(folder: Path, root: Path, run: int) -> str:
    """Run one measurement; return a line with its figures."""
    kind, _, _, names, clients = RUNS[run]
    context = multiprocessing.get_context("spawn")
    started, results = context.Barrier(len(names)), context.Queue()
    nodes = [
        context.Process(target=run_node, args=(folder, root, name, run, started, results)) for name in names
    ]
    for node in nodes:
        node.start()
    try:
        found = [results.get(timeout=10 * SECONDS)[1] for _ in nodes]
    except queue.Empty:
        sys.exit("a node of the benchmark failed")
    for node in nodes:
        node.join()
    rates = [len(times) / SECONDS for times in found]
    slowest = min(found, key=len)
    p50, p99 = (1000 * slowest[int(len(slowest) * part)] for part in (0.5, 0.99))
    write_results(f"fleet {kind} {names} {clients}", {"rates": rates, "p50_ms": p50, "p99_ms": p99})
    each = f", slowest node {min(rates):,.0f}/s" if len(names) > 1 else ""
    return (
        f"{kind}, {len(names)} nodes, {clients} clients each: {sum(rates):,.0f}/s{each},"
        f" p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )


async def create_streams(folder: Path, run: int) -> None:
    """Create the streams, which the nodes use at the same time."""
    bucket = await JetStreamBucket.open(
        cluster_address(folder, FleetNode.read(folder)), f"run{run}", folder / "uploads"
    )
    await TablesLog(bucket.connection, bucket.namespace, "bench", "a", set).create()
    await bucket.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as root, running(Path(root)) as cluster:
        folder = cluster.nodes[0].folder.parent
        for run in range(len(RUNS)):
            asyncio.run(create_streams(folder, run))
            print(run_nodes(folder, Path(root), run), flush=True)


if __name__ == "__main__":
    main()
