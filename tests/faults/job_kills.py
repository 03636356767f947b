"""`make job-faults`: kills a service at random moments while jobs are added with rows, and while they run.

Each committed row has its job, each job has a row, and its code runs to its end, in spite of the kills. Code
begins again only in a service that started after a kill, and once in each try. `SEED=7` repeats the choices.
"""

import argparse
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from svc_tui.client import Client
from tests.faults.applications import default_cache, toolchains
from tests.faults.killed_service import KilledService
from tests.support.waiting import until

WRITERS = 2
EVENTS, ALIVE_SECONDS = 16, 10.0
"""A service is killed after fewer orders and begins of jobs than this, or after this time."""
IN_START = 0.2
"""The share of kills during a start."""
LATE_SECONDS = 0.2
"""How late a call of a killed process can arrive here: less than a service takes to start."""
WORKERS = (1, 1, 1, 1, 1, 2)
"""Numbers of worker processes, one of which is chosen for each start: more take longer."""
DRAIN_SECONDS = 900.0
TABLES = """\
CREATE TABLE orders (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE ends (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""
MANIFEST = """\
[project]
name = "shop"

[resource.web]
lane = "js"
public = true
workdir = "web"
egress = ["http://127.0.0.1:{port}"]
"""
PROGRAM = """\
import { jobs, json, tables } from '@svc/guest';

export default {
  async fetch(request) {
    const header = (name) => request.headers.get(name);
    if (header('x-svc-job')) {
      const { name } = await request.json();
      await fetch(`http://127.0.0.1:PORT/${name}/${header('x-svc-job')}/${header('x-svc-job-try')}`);
      await tables.exec`INSERT INTO ends (name) VALUES (${name})`;
      return new Response(null, { status: 204 });
    }
    const { names, delay } = await request.json();
    await tables.batch(names.flatMap((name) => [
      tables.sql`INSERT INTO orders (name) VALUES (${name})`,
      jobs.sql('/run', { name }, { delay, maxTries: 100 }),
    ]));
    return json(names.length);
  },
};
"""


class Begin(NamedTuple):
    """A try of a job whose code has begun."""

    job: str
    attempt: int
    at: float


class Witness(ThreadingHTTPServer):
    """A server that the code of each job calls when it begins."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.begun: defaultdict[str, list[Begin]] = defaultdict(list)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self.shutdown()
        self.server_close()


class _Call(BaseHTTPRequestHandler):
    server: Witness

    def do_GET(self) -> None:
        _, name, job, attempt = self.path.split("/")
        self.server.begun[name].append(Begin(job, int(attempt), time.monotonic()))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


class Shop:
    """A service whose application adds jobs with rows, and the names that it acknowledged."""

    def __init__(self, root: Path, cache: Path, witness: Witness) -> None:
        """`cache` has the toolchains."""
        project, port = root / "shop", str(witness.server_port)
        (project / "tables").mkdir(parents=True)
        (project / "web").mkdir()
        (project / "svc.toml").write_text(MANIFEST.format(port=port))
        (project / "web" / "index.js").write_text(PROGRAM.replace("PORT", port))
        (project / "tables" / "0001-orders.sql").write_text(TABLES)
        self.service = KilledService(root, ("--no-console",))
        (root / "cache").symlink_to(cache, target_is_directory=True)
        self.witness = witness
        self.acked: set[str] = set()
        self.starts: list[float] = []
        self._numbers, self._end = itertools.count(), threading.Event()

    def deploy(self) -> None:
        """Start the service, and deploy the application."""
        self.service.deploy(self.service.root / "shop")
        self.starts.append(self.service.started)

    def start(self, alive: float, workers: int) -> bool:
        """Start the service; return whether it serves."""
        serves = self.service.start(alive, "--workers", str(workers))
        self.starts.append(self.service.started)
        return serves

    @property
    def events(self) -> int:
        """The number of orders that were acknowledged, and of jobs that have begun."""
        return len(self.acked) + len(self.witness.begun)

    def under_orders(self, events: int, seed: int) -> None:
        """Add orders until so many things have happened, and kill the service."""
        self._end.clear()
        reached = self.events + events
        chances = [random.Random(seed + each) for each in range(WRITERS)]
        threads = [threading.Thread(target=self._order, args=(each,)) for each in chances]
        for thread in threads:
            thread.start()
        with suppress(AssertionError):
            until(lambda: self.events >= reached, ALIVE_SECONDS)
        self.service.kill()
        self._end.set()
        for thread in threads:
            thread.join()

    def _order(self, chance: random.Random) -> None:
        with httpx.Client(base_url=self.service.public, timeout=30) as client:
            while not self._end.wait(chance.uniform(0.0, 0.05)):
                names = [f"order-{next(self._numbers)}" for _ in range(chance.randrange(1, 4))]
                body = {"names": names, "delay": chance.choice([0, 0, 0, 1, 4])}
                with suppress(httpx.TransportError):
                    if client.post("/", headers={"host": "web--shop.localhost"}, json=body).is_success:
                        self.acked.update(names)

    def close(self) -> None:
        """Kill the service, if it runs."""
        self.service.close()

    def counts(self) -> dict[str, int]:
        """Return the numbers of jobs by state."""
        with Client(self.service.control, self.service.token) as client:
            listed = client.call("GET", "/v1/projects/shop/jobs", params={"limit": 1})
        return {state: listed[state] for state in ("waiting", "running", "dead")}

    def names(self, table: str) -> list[str]:
        """Return the names in a table."""
        sql = f"SELECT json_group_array(name) AS names FROM {table}"
        with Client(self.service.control, self.service.token) as client:
            answer: dict[str, Any] = client.call("POST", "/v1/projects/shop/sql", {"sql": sql})
        names: list[str] = json.loads(answer["rows"][0]["names"])
        return names

    def check(self) -> dict[str, int]:
        """Return how many orders were acknowledged and have jobs, and how many of them have which fault."""
        orders, ends = set(self.names("orders")), Counter(self.names("ends"))
        begun = self.witness.begun
        return {
            "acked": len(self.acked),
            "jobs": len(orders),
            "missing": len(self.acked - orders),
            "lost": len(orders - ends.keys()),
            "foreign": len((begun.keys() | ends.keys()) - orders),
            "doubled": sum(len({each.job for each in begins}) > 1 for begins in begun.values()),
            "dead": self.counts()["dead"],
            "twice": sum(len(begins) > 1 for begins in begun.values()),
            "unexplained": sum(not self._explained(sorted(each, key=_at)) for each in begun.values()),
        }

    def _explained(self, begins: list[Begin]) -> bool:
        """Return whether tries have different numbers, and a start of the service lies between each two."""
        return len({each.attempt for each in begins}) == len(begins) and all(
            any(before.at - LATE_SECONDS <= start <= after.at for start in self.starts)
            for before, after in pairwise(begins)
        )


def _at(begin: Begin) -> float:
    return begin.at


def run(shop: Shop, kills: int, seed: int, say: Callable[[str], None]) -> dict[str, int]:
    """Kill a service so often, wait until all jobs have run, and return what was found."""
    chance, since = random.Random(seed), time.monotonic()
    shop.deploy()
    shop.under_orders(EVENTS, seed)
    for number in range(1, kills + 1):
        alive = chance.random() if chance.random() < IN_START else 1.0
        if shop.start(alive, chance.choice(WORKERS)):
            shop.under_orders(chance.randrange(EVENTS), seed + WRITERS * number)
        else:
            shop.service.kill()
        if "Traceback" in (log := shop.service.log.read_text()):
            say(f"kill {number}: the log has a traceback: {log[-3000:]}")
        if number % 50 == 0:
            say(
                f"kills={number} acked={len(shop.acked)} begun={len(shop.witness.begun)}"
                f" seconds={time.monotonic() - since:.0f}"
            )
    shop.start(1.0, 1)
    until(lambda: not sum(shop.counts()[each] for each in ("waiting", "running")), DRAIN_SECONDS)
    return shop.check()


def main(kills: int, seed: int) -> int:
    """Run, print the totals, and return the exit status."""
    print(f"seed {seed}", flush=True)
    with (
        toolchains(default_cache()),
        tempfile.TemporaryDirectory(prefix="svc-kills-") as folder,
        closing(Witness()) as witness,
        closing(Shop(Path(folder), default_cache(), witness)) as shop,
    ):
        found = run(shop, kills, seed, lambda line: print(line, flush=True))
    print(f"job kills={kills} {' '.join(f'{name}={value}' for name, value in found.items())}")
    return 1 if any(value for name, value in found.items() if name not in ("acked", "jobs", "twice")) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.faults.job_kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=1000)
    given = parser.parse_args()
    sys.exit(main(given.kills, given.seed))
