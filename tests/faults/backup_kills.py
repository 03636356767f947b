"""`make backup-faults`: kills a service under writes, and restores its backup from the store alone each time.

An acknowledged write that is older than `SHIPPED_SECONDS` at the kill has to be there, and no row twice.
Snapshots, joins, removals and verifications happen as often as else in days. `SEED=7` repeats the choices.
"""

import argparse
import asyncio
import itertools
import math
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx

from engine.service.secrets import SecretsKey
from svc_tui.backup.restore import restore
from svc_tui.backup.store import TABLES, BackupStore, parse_tables
from tests.faults.applications import INSERT, SOURCES, body_of, default_cache, toolchains
from tests.faults.killed_service import KilledService

SHIPPED_SECONDS = 2.0
PROBLEMS = ("differs from", "cannot be restored", "Traceback")
"""Texts in the log of a service that has a fault."""
FASTER = """
from svc_tui.backup import shipper
shipper.SNAPSHOT_BYTES, shipper.MAX_PARTS, shipper.PRUNE_SECONDS = 200_000, 15, 5
shipper._DAY_NS, shipper.VERIFY_NS = 2 * 10**9, 10 * 10**9
"""
"""Takes snapshots, removes them and verifies as often as else in days."""
MANIFEST = '[project]\nname = "shop"\n\n[resource.js]\nlane = "js"\npublic = true\nworkdir = "js"\n'
SCHEMA = "CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT NOT NULL);"


class Service(KilledService):
    """A service with a backup in a folder, the writes that it acknowledged, and when."""

    def __init__(self, root: Path) -> None:
        self.acked: dict[str, float] = {}
        self.numbers = itertools.count()
        self.late = 0.0
        """How late a thread ran, at most, since the last start: without a processor, nothing is stored."""
        self.since = math.inf
        self.end = threading.Event()
        options = ("--log-days", "1", "--no-console", "--backup", f"file://{root}/store")
        super().__init__(root, options, FASTER)

    def deploy_application(self) -> None:
        """Deploy the application that writes."""
        shop = self.root / "shop"
        (shop / "tables").mkdir(parents=True)
        (shop / "svc.toml").write_text(MANIFEST)
        (shop / "tables" / "0001-entries.sql").write_text(SCHEMA)
        shutil.copytree(SOURCES / "js", shop / "js")
        self.deploy(shop)
        self.key = SecretsKey.open(self.data)
        self.store = BackupStore(f"file://{self.root}/store", self.key)

    def start(self, alive: float = 1.0, *options: str) -> bool:
        """Start, and note since when the service serves."""
        self.since = math.inf
        if serves := super().start(alive, *options):
            self.since = time.monotonic()
        return serves

    def write(self, client: httpx.Client, kind: str) -> None:
        """Send one write, and note it if it is acknowledged."""
        texts = [f"{kind}-{next(self.numbers)}" for _ in range(40 if kind == "import" else 1)]
        owner = {"authorization": f"Bearer {self.token}"}
        match kind:
            case "guest":
                headers = {"host": "js--shop.localhost"}
                answer = client.post(
                    self.public, headers=headers, content=body_of("batch", (INSERT, texts[0]))
                )
            case "sql":
                body = {"sql": INSERT, "params": texts, "write": True}
                answer = client.post(f"{self.control}/v1/projects/shop/sql", headers=owner, json=body)
            case "console":
                body = {"table": "entries", "changes": [{"insert": {"text": texts[0]}}]}
                answer = client.post(f"{self.control}/v1/projects/shop/rows", headers=owner, json=body)
            case _:
                answer = client.post(
                    f"{self.control}/v1/projects/shop/import?format=csv&table=entries",
                    headers={**owner, "content-type": "application/octet-stream"},
                    content="\n".join(["text", *texts]),
                )
        if answer.status_code == 200 and '"error"' not in answer.text:
            self.acked |= dict.fromkeys(texts, time.monotonic())

    def writer(self, kind: str, pause: float) -> None:
        """Write until the service is killed."""
        with httpx.Client(timeout=30) as client:
            while not self.end.wait(pause):
                with suppress(httpx.TransportError):
                    self.write(client, kind)

    def sample(self) -> None:
        """Measure how late a thread runs on this machine until the service is killed."""
        while not self.end.is_set():
            since = time.monotonic()
            time.sleep(0.05)
            self.late = max(self.late, time.monotonic() - since - 0.05)

    def under_writes(self, seconds: float) -> float:
        """Write for some seconds, kill the service, and return when."""
        self.end.clear()
        self.late = 0.0
        kinds = {"guest": 0.01, "sql": 0.03, "console": 0.03, "import": 0.2}
        threads = [threading.Thread(target=self.writer, args=each) for each in kinds.items()]
        threads.append(threading.Thread(target=self.sample))
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        killed = self.kill()
        self.end.set()
        for thread in threads:
            thread.join()
        return killed

    def timeline(self, killed: float) -> str:
        """Return when the last parts of the journal were begun and stored, in seconds before a kill."""
        at_ns = time.time_ns() - int((time.monotonic() - killed) * 1e9)
        _, entries = parse_tables(each.name for each in self.store.list(TABLES))
        parts = sorted(entries, key=lambda each: each.time_ns)[-5:]
        stored_ns = [(self.root / "store" / each.name).stat().st_mtime_ns for each in parts]
        times = [
            ((at_ns - each.time_ns) / 1e9, (at_ns - ns) / 1e9)
            for each, ns in zip(parts, stored_ns, strict=True)
        ]
        return ", ".join(f"begun {begun:.2f} stored {stored:.2f}" for begun, stored in times)

    def restored(self) -> Counter[str]:
        """Return the texts of a restore, with their numbers."""
        target = self.root / "restored"
        result = asyncio.run(restore(self.store, self.key, target))
        assert not any(each.problem for each in result.tables), result.tables
        assert not result.findings, result.findings
        with closing(sqlite3.connect(target / "projects" / "shop" / "tables" / "tables.db")) as connection:
            found = Counter(text for (text,) in connection.execute("select text from entries"))
        shutil.rmtree(target)
        return found


def run(service: Service, kills: int, seed: int, say: Callable[[str], None]) -> Iterator[str]:
    """Kill a service so often; yield what is wrong."""
    chance = random.Random(seed)
    service.deploy_application()
    longest, since, count, stored = 0.0, time.monotonic(), 0, set[str]()
    service.under_writes(10.0)
    for number in range(1, kills + 1):
        in_start = chance.random() < 0.2
        serves = service.start(chance.random() if in_start else 1.0)
        killed = service.under_writes(chance.uniform(0.0, 4.0)) if serves else service.kill()
        problem = next((each for each in PROBLEMS if each in service.log.read_text()), "")
        if problem:
            yield f"kill {number}: the log has {problem!r}: {service.log.read_text()[-2000:]}"
        rows = service.restored()
        if twice := [text for text, times in rows.items() if times > 1]:
            yield f"kill {number}: {len(twice)} rows are there twice: {twice[:5]}"
        if gone := stored - rows.keys():
            yield f"kill {number}: {len(gone)} rows of an earlier restore are missing: {sorted(gone)[:5]}"
        # What an earlier kill left to be stored counts from the start of the service on.
        lost = {
            text: killed - max(at, service.since) for text, at in service.acked.items() if text not in rows
        }
        if missing := {text: age for text, age in lost.items() if age > SHIPPED_SECONDS}:
            oldest = max(missing.values())
            yield (
                f"kill {number}: {len(missing)} writes are missing, the oldest of {oldest:.1f} s before"
                f" (a thread here was {service.late:.1f} s late, load {os.getloadavg()[0]:.0f};"
                f" parts, in seconds before: {service.timeline(killed)})"
            )
        longest, count, stored = max([longest, *lost.values()]), count + len(lost), set(rows)
        if number % 10 == 0 or number == kills:
            say(
                f"kills={number} acked={len(service.acked)} in the last restore={sum(rows.values())}"
                f" younger and not stored={count} oldest of these={longest:.2f} s"
                f" seconds={time.monotonic() - since:.0f}"
            )


def main(kills: int, seed: int) -> int:
    """Run, print what is wrong and the totals, and return the exit status."""
    print(f"seed {seed}", flush=True)
    problems = 0
    with (
        toolchains(default_cache()),
        tempfile.TemporaryDirectory(prefix="svc-kills-") as folder,
        closing(Service(Path(folder))) as service,
    ):
        for problem in run(service, kills, seed, lambda line: print(line, flush=True)):
            problems += 1
            print(problem, flush=True)
    print(f"backup kills={kills} problems={problems}")
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.faults.backup_kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=500)
    given = parser.parse_args()
    sys.exit(main(given.kills, given.seed))
