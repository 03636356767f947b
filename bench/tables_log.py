"""Cost of the log of tables: the same requests with a journal that goes to a folder each second, and without.

Rounds take turns between two projects, so that both have the same machine. `alone` inserts come one after the
other, `inserts` from 64 clients, `reads` one after the other. Then one project inserts while the backup takes
and stores the snapshot of another one with 2 GB.
"""

import asyncio
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from doors.tables.door import ProjectTables, TablesDoor
from doors.tables.sqlite.connections import DATA_FOLDER, DATABASE_NAME, close_owner, open_owner
from engine.bucket.folder import FolderBucket
from engine.door import DoorContext, DoorRequest, DoorResponse
from engine.service.secrets import SecretsKey
from svc_tui.backup.shipper import Backup
from svc_tui.backup.store import BackupStore

ROUNDS = 7
KINDS = {"alone": 1, "inserts": 64, "reads": 1}
"""The clients of each kind."""
LARGE_BYTES = 2 << 30
ROW_BYTES = 32 << 20
PAUSE_SECONDS = 0.002
IDLE_SECONDS = 10.0
"""Time between two inserts beside a snapshot, and time for which they are measured without one."""


def p99(times: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return sorted(times)[len(times) * 99 // 100] * 1e3


async def ask(tables: ProjectTables, requests: list[DoorRequest], clients: int) -> tuple[float, float]:
    """Return how many requests a second were answered, and the p99 of a request in milliseconds."""
    waiting, times = iter(requests), list[float]()

    async def client() -> None:
        for request in waiting:
            times.append(await timed(tables, request))

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return len(requests) / (time.perf_counter() - began), p99(times)


async def timed(tables: ProjectTables, request: DoorRequest) -> float:
    """Return the seconds of a request."""
    began = time.perf_counter()
    answer = tables.answer(request)
    response = answer if isinstance(answer, DoorResponse) else await answer
    assert response.status == 200
    return time.perf_counter() - began


def create(folder: Path, schema: tuple[str, ...]) -> Path:
    """Create tables in a folder."""
    folder.mkdir(parents=True)
    owner = open_owner(folder / DATABASE_NAME)
    for sql in schema:
        owner.execute(sql)
    close_owner(owner)
    return folder


@asynccontextmanager
async def backed_up(root: Path) -> AsyncIterator[Backup]:
    """Back the projects of a folder up within the context, as a service does."""
    key = SecretsKey.open(root / "data")
    store = BackupStore(f"file://{root}/store", key, create=True)
    backup = Backup(store, root / "data", FolderBucket(root / "bucket"), lambda level, line: print(line))
    async with backup.running():
        yield backup


async def measure(
    root: Path, schema: tuple[str, ...], requests: dict[str, list[DoorRequest]]
) -> dict[str, float]:
    """Return the ratio of requests a second with the log to those without, and how much longer the p99 is.

    `requests` are those of each kind.
    """
    folders = {
        "log": create(root / "data" / "projects" / "log" / DATA_FOLDER, schema),
        "plain": create(root / "plain", schema),
    }
    opened = {name: TablesDoor().open(DoorContext(name, each, print)) for name, each in folders.items()}
    found: dict[str, float] = {}
    async with backed_up(root):
        for tables in opened.values():
            await ask(tables, requests["inserts"][:200], 1)
        for kind, clients in KINDS.items():
            rounds = []
            for number in range(ROUNDS):
                print(f"{kind} with and without the log: round {number + 1} of {ROUNDS}", file=sys.stderr)
                turn = list(opened.items())[:: 1 if number % 2 else -1]
                rounds.append({name: await ask(tables, requests[kind], clients) for name, tables in turn})
            found[f"log_{kind}"] = median(each["log"][0] / each["plain"][0] for each in rounds)
            found[f"log_{kind}_p99_ms"] = median(each["log"][1] - each["plain"][1] for each in rounds)
        found["large_p99"] = await measure_large(root / "data" / "projects", opened["log"], requests["alone"])
    for tables in opened.values():
        await tables.aclose()
    return found


async def measure_large(projects: Path, tables: ProjectTables, requests: list[DoorRequest]) -> float:
    """Return the p99 of inserts beside the snapshot of a large database, by that without one."""
    idle = await insert_until(tables, requests, asyncio.create_task(asyncio.sleep(IDLE_SECONDS)))
    folder = projects / "large" / DATA_FOLDER
    folder.mkdir(parents=True)
    await asyncio.to_thread(create_large, folder / "new.db")
    print(f"a snapshot of {LARGE_BYTES >> 30} GiB", file=sys.stderr)
    (folder / "new.db").rename(folder / DATABASE_NAME)
    beside = await insert_until(
        tables, requests, asyncio.create_task(asyncio.to_thread(wait_until_stored, projects))
    )
    print(f"p99 of an insert: idle {idle:.1f} ms, beside the snapshot {beside:.1f} ms", file=sys.stderr)
    return beside / idle


def create_large(path: Path) -> None:
    """Create a large database, without a journal."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("create table files (id integer primary key, content blob)")
    for _ in range(LARGE_BYTES // ROW_BYTES):
        database.execute("insert into files (content) values (zeroblob(?))", (ROW_BYTES,))
    database.close()


def wait_until_stored(projects: Path) -> None:
    """Wait until the backup has a snapshot of the large project."""
    stored = projects.parents[1] / "store"
    # An object that is being written has a # in its name.
    while all("#" in each.name for each in stored.glob("tables/large/*/snapshot/*")):
        time.sleep(0.5)


async def insert_until(
    tables: ProjectTables, requests: list[DoorRequest], ends: "asyncio.Task[None]"
) -> float:
    """Insert one row after the other until a task ends; return the p99 in milliseconds."""
    times = list[float]()
    while not ends.done():
        times.append(await timed(tables, requests[len(times) % len(requests)]))
        await asyncio.sleep(PAUSE_SECONDS)
    ends.result()
    return p99(times)
