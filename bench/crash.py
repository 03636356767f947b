"""Kills a process that writes through the tables Door, repeatedly, and searches for acknowledged rows.

`python -m bench.crash [ROUNDS]`: a round starts a process that writes as fast as it can, every row twice, in
two tables by one batch, and reports each acknowledgement; SIGKILL ends it in the middle. Then the standard
library reads the file: `missing` counts acknowledged rows that are not in it, `half` rows
that are in one table and not in the other. The last line is `acked=<n> missing=<n>`.
"""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from doors.tables.door import TablesDoor
from doors.tables.sqlite.connections import DATABASE_NAME, open_owner
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse

ROUNDS = 50
WRITERS = 48
LONGEST_SECONDS = 0.4
"""A process is killed at a random moment within this time after its first acknowledgement."""
PADDING = "x" * 300
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Acknowledged writes over all rounds, and how many of them are missing or incomplete."""

    acked: int
    missing: int
    half: int
    damaged: bool


def crash(folder: Path, rounds: int) -> Outcome:
    """Run `rounds` rounds over one file in a folder."""
    owner = open_owner(folder / DATABASE_NAME)
    owner.execute("create table left_side (n integer primary key, padding text)")
    owner.execute("create table right_side (n integer primary key, padding text)")
    owner.close()
    acked: set[int] = set()
    left_rows: set[int] = set()
    right_rows: set[int] = set()
    damaged = False
    for _ in range(rounds):
        acked |= _round(folder, max(acked | left_rows, default=0) + 1)
        database = sqlite3.connect(folder / DATABASE_NAME)
        damaged |= database.execute("pragma integrity_check").fetchall() != [("ok",)]
        left_rows = {n for (n,) in database.execute("select n from left_side")}
        right_rows = {n for (n,) in database.execute("select n from right_side")}
        database.close()
        if acked - left_rows or left_rows ^ right_rows:
            break
    return Outcome(len(acked), len(acked - left_rows), len(left_rows ^ right_rows), damaged)


def _round(folder: Path, first: int) -> set[int]:
    """Start a writer, kill it, and return the rows that it acknowledged."""
    command = [sys.executable, "-m", "bench.crash", "--write", str(folder), str(first)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        time.sleep(random.uniform(0, LONGEST_SECONDS))
        process.kill()
        complete_lines, _, _ = (first_line + process.stdout.read()).rpartition(b"\n")
    return {int(line) for line in complete_lines.split()}


async def write(folder: Path, first: int) -> None:
    """Write until killed; print the number of each row that was acknowledged."""
    tables = TablesDoor().open(DoorContext("crash", folder, print))
    numbers = iter(range(first, 1 << 62))
    caller = Caller("bench", "crash")

    async def one_writer() -> None:
        for number in numbers:
            statements = [
                {"sql": f"insert into {table} values ($1, $2)", "params": [number, PADDING]}
                for table in ("left_side", "right_side")
            ]
            body = json.dumps({"statements": statements}).encode()
            answer = tables.answer(
                DoorRequest("POST", "/v1/batch", query="", headers=(), body=body, caller=caller)
            )
            response = answer if isinstance(answer, DoorResponse) else await answer
            if response.status != 200:
                raise SystemExit(response.body.decode())
            os.write(1, b"%d\n" % number)

    await asyncio.gather(*(one_writer() for _ in range(WRITERS)))


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        asyncio.run(write(Path(sys.argv[2]), int(sys.argv[3])))
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        outcome = crash(Path(folder), rounds)
    print(f"rounds={rounds} half={outcome.half} damaged={'yes' if outcome.damaged else 'no'}")
    print(f"acked={outcome.acked} missing={outcome.missing}")
    sys.exit(bool(outcome.missing or outcome.half or outcome.damaged or not outcome.acked))


if __name__ == "__main__":
    main()
