"""The cost of projects in a fleet: memory and disk of keepers, and of a node that has their tables open."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.connections import open_owner
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.tables_log import TablesLog
from engine.wasm.execution.memory_budget import ResidentSet
from tests.engine.fleet.cluster import Cluster, pid_of, running

PROJECTS = 1000
DEPLOYMENTS = 20
VALUE_BYTES = 2000
OPEN = 200
AT_ONCE = 50
Show = Callable[[str, float, str], None]


def measure(folder: Path, show: Show) -> None:
    """Store projects in a new cluster, and open the tables of some."""
    folder.mkdir()
    with running(folder) as cluster:
        asyncio.run(_measure(cluster, folder, show))


async def _measure(cluster: Cluster, folder: Path, show: Show) -> None:
    bucket = await JetStreamBucket.open(cluster.address, "svc", folder / "uploads")
    log = TablesLog(bucket.connection, bucket.namespace, "bench", "node", lambda: {"node"})
    await log.create()
    memory, disk = _memory(cluster), _disk(folder)

    async def store(number: int) -> None:
        for deployment in range(DEPLOYMENTS):
            key = f"deployments/p{number}/{deployment}"
            await bucket.kv.cas(key, b"x" * VALUE_BYTES, None)
        await log.append(f"p{number}", [b"." + b"x" * 300], 0)

    begin = time.perf_counter()
    for first in range(0, PROJECTS, AT_ONCE):
        await asyncio.gather(*(store(number) for number in range(first, first + AT_ONCE)))
    values = PROJECTS * (DEPLOYMENTS + 1)
    show("values stored", values / (time.perf_counter() - begin), "per s")
    show("memory of a nats-server per project", (_memory(cluster) - memory) / PROJECTS / 1024, "KiB")
    show("disk of a keeper per project", (_disk(folder) - disk) / PROJECTS / 1024 / 3, "KiB")
    await _open_tables(log, folder, show)
    await bucket.aclose()


async def _open_tables(log: TablesLog, folder: Path, show: Show) -> None:
    replicas = Replicas(log, folder / "projects")
    replicas.start()
    files, resident = _open_files(), ResidentSet().read()
    connections = []
    begin = time.perf_counter()
    for number in range(OPEN):
        data = folder / "projects" / f"open{number}"
        await replicas.of(data).open(fresh=True)
        connections.append(await asyncio.to_thread(open_owner, data / "tables" / "tables.db"))
    seconds = time.perf_counter() - begin
    show("opening the tables of a project", seconds / OPEN * 1e3, "ms")
    show("memory per project with open tables", (ResidentSet().read() - resident) / OPEN / 1024, "KiB")
    show("open files per project", (_open_files() - files) / OPEN, "")
    for connection in connections:
        await asyncio.to_thread(connection.close)
    await replicas.aclose()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _memory(cluster: Cluster) -> float:
    """Return the resident bytes of a nats-server, the mean of all."""
    pids = [pid_of(node) for node in cluster.nodes]
    return sum(ResidentSet(pid).read() for pid in pids if pid is not None) / len(pids)


def _disk(folder: Path) -> int:
    """Return the bytes that the stores of all servers use on disk."""
    blocks = [path.stat().st_blocks for path in folder.rglob("*") if path.is_file() and "store" in path.parts]
    return sum(blocks) * 512
