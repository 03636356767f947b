"""Jobs on three services that have become a fleet: each runs on one node at a time, and none is lost."""

import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.engine.fleet.machines import Machines
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.fleet import require_nats
from tests.support.service import prepare
from tests.support.waiting import until

MANIFEST = """
[resource.worker]
lane = "js"
entry = "worker.js"
public = true
egress = ["http://127.0.0.1:{port}"]
"""
MIGRATION = "CREATE TABLE done (job TEXT PRIMARY KEY, name TEXT NOT NULL, try INTEGER) WITHOUT ROWID;"
WORKER = """
import { jobs, json, tables } from '@svc/guest';
export default {
  async fetch(request) {
    const job = request.headers.get('x-svc-job');
    if (job) {
      const { name } = await request.json();
      const attempt = request.headers.get('x-svc-job-try');
      await fetch(`http://127.0.0.1:PORT/${name}/${attempt}`);
      await tables.exec`insert or replace into done values (${job}, ${name}, ${attempt})`;
      return new Response(null, { status: 204 });
    }
    const { names, delay } = await request.json();
    await tables.batch(names.map((name) => jobs.sql('/work', { name }, { delay })));
    return json(names.length);
  },
};
"""


class Witness(ThreadingHTTPServer):
    """A server that the code of each job calls when it begins. Calls of names with `held` wait."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.begun: list[tuple[str, int]] = []
        """Names and tries."""
        self.running, self.overlapping = Counter[str](), set[str]()
        self.released = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def count(self, prefix: str) -> Counter[str]:
        return Counter(name for name, _ in self.begun if name.startswith(prefix))


class Call(BaseHTTPRequestHandler):
    """One call."""

    server: Witness

    def do_GET(self) -> None:
        _, name, attempt = self.path.split("/")
        server = self.server
        server.running[name] += 1
        if server.running[name] > 1:
            server.overlapping.add(name)
        server.begun.append((name, int(attempt)))
        while name.startswith("held") and not server.released.wait(0.02) and not self._is_gone():
            pass
        server.running[name] -= 1
        self.send_response(204)
        self.end_headers()

    def _is_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def log_message(self, *arguments: object) -> None:
        pass


class Jobs:
    """The jobs of a fleet."""

    def __init__(self, machines: Machines, witness: Witness) -> None:
        self.machines, self.witness = machines, witness

    def add(self, node: int, *names: str, delay: float = 0.0) -> None:
        """Add jobs in one transaction, through a guest on a node."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.machines.servers[node - 1].port}/",
            json={"names": names, "delay": delay},
            headers={"host": "worker--shop.localhost"},
            timeout=60,
        )
        assert answer.json() == len(names), answer.text

    def done(self, node: int, prefix: str) -> list[str]:
        """Return the names of the jobs whose code has ended."""
        rows = self.machines.rows(node, f"SELECT name FROM done WHERE name GLOB '{prefix}*'")
        return [str(row["name"]) for row in rows]  # type: ignore[call-overload]

    def claimed(self, node: int, claimer: str) -> set[str]:
        """Return the names of the jobs that another node has claimed."""
        sql = f"SELECT body ->> '$.name' AS name FROM _svc_jobs WHERE owner GLOB '{claimer}.*'"
        return {str(row["name"]) for row in self.machines.rows(node, sql)}  # type: ignore[call-overload]

    def listed(self, node: int) -> dict[str, int]:
        """Return how many jobs there are in each state."""
        shown = prepare(self.machines.project, self.machines.environ_at(node), "jobs", "list", "--json")
        document = json.loads(shown)
        return {state: document[state] for state in ("waiting", "running", "dead")}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Jobs]:
    require_nats()
    with closing(Witness()) as witness:

        def complete(project: Path) -> None:
            port = str(witness.server_port)
            with (project / "svc.toml").open("a") as manifest:
                manifest.write(MANIFEST.format(port=port))
            (project / "worker.js").write_text(WORKER.replace("PORT", port))
            (project / "tables" / "0002-done.sql").write_text(MIGRATION)

        machines = Machines(tmp_path_factory.mktemp("jobs ü"), cache=cache, complete=complete)
        with closing(machines), machines.client:
            machines.form()
            yield Jobs(machines, witness)


@pytest.mark.slow(seconds=20)
def test_jobs_of_all_nodes_begin_once(jobs: Jobs) -> None:
    names = {node: [f"quick-{node}-{number}" for number in range(12)] for node in (1, 2, 3)}
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda node: jobs.add(node, *names[node]), names))
    added = sorted(name for each in names.values() for name in each)
    until(lambda: sorted(jobs.done(2, "quick")) == added)
    assert jobs.witness.count("quick") == Counter(added) and not jobs.witness.overlapping
    until(lambda: jobs.listed(3) == {"waiting": 0, "running": 0, "dead": 0})


@pytest.mark.slow(seconds=20)
def test_no_job_is_lost_with_the_leader_and_only_those_that_had_begun_begin_again(jobs: Jobs) -> None:
    witness, fleet = jobs.witness, FaultyFleet(jobs.machines)
    lost = fleet.writer()
    if fleet.leader() != lost:
        fleet.lead(lost)
    names = [*(f"held-{number}" for number in range(40)), "later"]
    jobs.add(lost, *names[:-1])
    until(lambda: len(witness.count("held")) >= 8)
    jobs.add(lost, names[-1], delay=3)
    jobs.machines.kill(lost)
    other = next(node for node in (1, 2, 3) if node != lost)
    claimed = jobs.claimed(other, fleet.id(lost))
    witness.released.set()
    others = sorted(set(names) - claimed)
    assert "later" in others and len(others) > 1
    until(lambda: sorted(jobs.done(other, "[hl]")) == others)
    jobs.machines.restart(lost)
    until(lambda: sorted(jobs.done(other, "[hl]")) == sorted(names))
    counts = witness.count("held") + witness.count("later")
    assert set(counts) == set(names) and not witness.overlapping
    assert {name for name, count in counts.items() if count > 1} <= claimed
    assert max(counts.values()) == 2
    until(lambda: jobs.listed(other) == {"waiting": 0, "running": 0, "dead": 0})
