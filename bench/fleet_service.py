"""A fleet of three nodes on this machine: writes and reads of a js resource through each node, activation
and cold start.

Each request starts an instance of the resource, which runs one statement. All nodes, and the load, share the
processors: on machines of their own, nodes answer more. `make bench-fleet` runs `bench.fleet` too.
"""

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from bench import fleet_scale
from bench.processes import ROOT, write_results
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.fleet import FleetNodes
from tests.support.service import environ_of, prepare
from tests.support.waiting import until

SECONDS = 4
CONNECTIONS = 32
FLIPS = 20
ROWS = 10_000
HOST = "web--shop.localhost"
_MANIFEST = """[project]
name = "shop"

[resource.web]
lane = "js"
public = true
env = {{ VERSION = "{}" }}
"""
_GUEST = """\
const call = (path, body) =>
  fetch(`${process.env.SVC_TABLES_ENDPOINT}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

export default {
  async fetch(request) {
    const path = new URL(request.url).pathname;
    if (path === '/version') return new Response(process.env.VERSION);
    const answer =
      path === '/write'
        ? await call('exec', { sql: 'insert into entries (text) values ($1)', params: ['a row'] })
        : await call('query', {
            sql: 'select text from entries where id = $1',
            params: [1],
            stale_ok: path === '/stale',
          });
    return new Response(await answer.text(), { status: answer.status });
  },
};
"""
_SCHEMA = f"""\
CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
INSERT INTO entries (text) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
  SELECT 'row ' || i FROM n;
"""


def main() -> None:
    """Measure, print and store the figures."""
    figures: dict[str, Any] = {}

    def show(name: str, value: float, unit: str) -> None:
        figures[name] = round(value, 2)
        print(f"{name:34} {value:10.1f} {unit}", flush=True)

    with tempfile.TemporaryDirectory(prefix="svc-bench-fleet-") as folder:
        root = Path(folder)
        nodes = FleetNodes(root, project(root / "shop"), environ_of(root / "home"))
        try:
            nodes.form()
            fleet = FaultyFleet(nodes)
            leader = fleet.leader()
            for path in ("write", "fresh", "stale"):
                for number in (1, 2, 3):
                    role = "leader" if number == leader else "other"
                    rate = _rate([nodes.servers[number - 1].port], path)
                    show(f"{path} through node {number} ({role})", rate, "requests/s")
                rate = _rate([server.port for server in nodes.servers], path)
                show(f"{path} through all nodes", rate, "requests/s")
            times = _flips(nodes)
            show("activation on other nodes, p50", statistics.median(times) * 1e3, "ms")
            show("activation on other nodes, p99", sorted(times)[int(len(times) * 0.99)] * 1e3, "ms")
            show(f"cold start with {ROWS} rows or more", _cold_start(nodes), "s")
        finally:
            nodes.close()
        fleet_scale.measure(root / "scale", show)
    write_results("fleet_service", figures)


def project(folder: Path) -> Path:
    (folder / "tables").mkdir(parents=True)
    (folder / "svc.toml").write_text(_MANIFEST.format("one"))
    (folder / "index.js").write_text(_GUEST)
    (folder / "tables" / "001-entries.sql").write_text(_SCHEMA)
    return folder


def _rate(ports: list[int], path: str) -> float:
    """Return the requests that succeed in a second on all ports together."""
    share = str(CONNECTIONS // len(ports))
    loads = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.load", str(port), f"{HOST}/{path}", str(SECONDS), share],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for port in ports
    ]
    results = [json.loads(load.communicate()[0]) for load in loads]
    failed = sum(result["failed"] for result in results)
    assert failed <= sum(result["requests"] for result in results) / 100, results
    return float(sum((result["requests"] - result["failed"]) / result["seconds"] for result in results))


def _version(connection: http.client.HTTPConnection) -> str:
    connection.request("GET", "/version", headers={"host": HOST})
    return connection.getresponse().read().decode()


def _flips(nodes: FleetNodes) -> list[float]:
    """Return how much later each other node serves a rollback than the one that was asked, in seconds."""
    (nodes.project / "svc.toml").write_text(_MANIFEST.format("two"))
    prepare(nodes.project, nodes.environ, "deploy")
    until(lambda: all(_version_of(server.port) == "two" for server in nodes.servers))
    control = f"{nodes.servers[0].control}/v1/projects/shop"
    times: list[float] = []
    with httpx.Client(headers={"authorization": f"Bearer {nodes.token}"}, timeout=60) as client:
        listed = client.get(f"{control}/deployments").json()["deployments"]
        ids = [each["id"] for each in listed[:2]]
        for flip in range(FLIPS):
            target, version = (ids[1], "one") if flip % 2 == 0 else (ids[0], "two")
            plan = client.get(f"{control}/deployments/{target}/rollback").json()
            seen: dict[int, float] = {}

            def watch(number: int, port: int, version: str = version, seen: dict[int, float] = seen) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                while _version(connection) != version:
                    time.sleep(0.001)
                seen[number] = time.perf_counter()
                connection.close()

            watching = [
                threading.Thread(target=watch, args=(number, server.port))
                for number, server in enumerate(nodes.servers)
            ]
            for thread in watching:
                thread.start()
            answer = client.post(
                f"{control}/rollback", json={"deployment": target, "revision": plan["revision"]}
            )
            assert answer.status_code == 200, answer.text
            for thread in watching:
                thread.join()
            times += [max(0.0, seen[number] - seen[0]) for number in (1, 2)]
    return times


def _version_of(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/version", headers={"host": HOST}, timeout=60).text


def _cold_start(nodes: FleetNodes) -> float:
    """Return the time from the start of a node without tables to its first fresh read, in seconds."""
    nodes.kill(3)
    shutil.rmtree(nodes.root / "m3" / "projects")
    begin = time.perf_counter()
    nodes.restart(3)
    port = nodes.servers[2].port
    address = f"http://127.0.0.1:{port}/fresh"
    until(lambda: httpx.get(address, headers={"host": HOST}, timeout=60).status_code == 200)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
