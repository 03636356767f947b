"""Cost of the tables Door: point reads and durable inserts a second at the Door, point reads for a guest.

At the Door each is compared with the standard library's sqlite3 doing the same work in the same run: JSON
in, one statement, JSON out, on a file of the same kind (write-ahead log, full synchronisation). Rounds take
turns; medians count. `reads` come one after the other on the event loop's thread, `inserts` come from 64 at
once, each acknowledged when it is on the disk. `guest100` is how many requests a second a js guest answers
that does 100 point reads in each (`tables_guest.py`). `log_…` compare with and without the log
(`tables_log.py`).
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench import tables_guest, tables_log
from bench.processes import write_results
from doors.tables.door import ProjectTables, TablesDoor
from doors.tables.sqlite.connections import DATABASE_NAME, open_owner
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse

ROUNDS = 5
READS = 20_000
INSERTS = 3_000
ALONE = 1_000
AT_ONCE = 64
ROWS = 10_000
READ = "select id, name, age from users where id = $1"
INSERT = "insert into entries (name, age) values ($1, $2)"
SCHEMA = (
    "create table users (id integer primary key, name text not null, age integer)",
    "create table entries (id integer primary key, name text not null, age integer)",
    "insert into users with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000)"
    " select i, 'user number ' || i, i % 90 from n",
)
CALLER = Caller("bench", "tables")


def bodies(sql: str, count: int) -> list[bytes]:
    """Return request bodies, with other values in each."""
    two = "$2" in sql
    return [
        json.dumps({"sql": sql, "params": [f"user {i}", i] if two else [i * 7919 % ROWS + 1]}).encode()
        for i in range(count)
    ]


def asked(path: str, requests: list[bytes]) -> list[DoorRequest]:
    return [DoorRequest("POST", path, query="", headers=(), body=body, caller=CALLER) for body in requests]


async def door_reads(tables: ProjectTables, requests: list[DoorRequest]) -> float:
    began = time.perf_counter()
    for request in requests:
        answer = tables.answer(request)
        response = answer if isinstance(answer, DoorResponse) else await answer
        assert response.status == 200
    return len(requests) / (time.perf_counter() - began)


async def door_inserts(tables: ProjectTables, requests: list[DoorRequest]) -> float:
    waiting = iter(requests)

    async def guest() -> None:
        for request in waiting:
            answer = tables.answer(request)
            response = answer if isinstance(answer, DoorResponse) else await answer
            assert response.status == 200

    began = time.perf_counter()
    await asyncio.gather(*(guest() for _ in range(AT_ONCE)))
    return len(requests) / (time.perf_counter() - began)


def library(path: Path) -> sqlite3.Connection:
    """Open a file of the same content with the standard library."""
    database = sqlite3.connect(path, isolation_level=None)
    for sql in ("pragma journal_mode = wal", "pragma synchronous = full", *SCHEMA):
        database.execute(sql)
    return database


def library_reads(database: sqlite3.Connection, requests: list[bytes]) -> float:
    began = time.perf_counter()
    for body in requests:
        document = json.loads(body)
        cursor = database.execute(document["sql"].replace("$", "?"), document["params"])
        names = [column[0] for column in cursor.description]
        json.dumps({"rows": [dict(zip(names, row, strict=True)) for row in cursor]}).encode()
    return len(requests) / (time.perf_counter() - began)


def library_inserts(database: sqlite3.Connection, requests: list[bytes]) -> float:
    began = time.perf_counter()
    for body in requests:
        document = json.loads(body)
        cursor = database.execute(document["sql"].replace("$", "?"), document["params"])
        json.dumps({"changes": cursor.rowcount, "last_id": cursor.lastrowid}).encode()
    return len(requests) / (time.perf_counter() - began)


async def measure(folder: Path) -> dict[str, list[float]]:
    """Return what each side did in each round."""
    owner = open_owner(folder / DATABASE_NAME)
    for sql in SCHEMA:
        owner.execute(sql)
    owner.close()
    tables = TablesDoor().open(DoorContext("bench", folder, print))
    database = library(folder / "library.db")
    reads, inserts = bodies(READ, READS), bodies(INSERT, INSERTS)
    our_reads, our_inserts = asked("/v1/query", reads), asked("/v1/exec", inserts)
    await door_reads(tables, our_reads[:1000])
    await door_inserts(tables, our_inserts[:100])
    library_reads(database, reads[:1000])
    found: dict[str, list[float]] = {"door_reads": [], "reads": [], "door_inserts": [], "inserts": []}
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        found["door_reads"].append(await door_reads(tables, our_reads))
        found["reads"].append(library_reads(database, reads))
        found["door_inserts"].append(await door_inserts(tables, our_inserts))
        found["inserts"].append(library_inserts(database, inserts))
    await tables.aclose()
    database.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        found = asyncio.run(measure(root))
        inserts = asked("/v1/exec", bodies(INSERT, INSERTS))
        requests = {
            "alone": inserts[:ALONE],
            "inserts": inserts,
            "reads": asked("/v1/query", bodies(READ, READS)),
        }
        log = asyncio.run(tables_log.measure(root, SCHEMA, requests))
    ratios = dict(log)
    for kind in ("reads", "inserts"):
        ours, theirs = found[f"door_{kind}"], found[kind]
        ratios[kind] = median(a / b for a, b in zip(ours, theirs, strict=True))
        print(
            f"{kind}: Door {median(ours):,.0f}/s, sqlite3 {median(theirs):,.0f}/s, ratio {ratios[kind]:.2f}"
        )
    print(f"a js guest that does {tables_guest.READS} point reads in a request", file=sys.stderr)
    per_second, milliseconds = tables_guest.measure()
    print(f"guest: {per_second:,.1f} requests/s on one connection, median {milliseconds:.1f} ms")
    guest = {"guest100": per_second, "guest100_ms": milliseconds}
    write_results("tables", {name: median(values) for name, values in found.items()} | ratios | guest)
    with_log = " ".join(f"{name}={value:.2f}" for name, value in log.items())
    own = f"read={ratios['reads']:.2f} insert={ratios['inserts']:.2f} guest100={per_second:.1f}"
    print(f"tables {own} {with_log}")


if __name__ == "__main__":
    main()
