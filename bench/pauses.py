"""Pauses of a fleet of three nodes on this machine after SIGTERM and `kill -9`: writes and reads.

A client for each node and kind of request sends one after another to the control API. A pause is the longest
time between two answers of a client whose node runs. Nodes start again before the next kill.
`make bench-pauses` repeats each kind of kill `TIMES` (10).
"""

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.fleet_service import project
from bench.processes import write_results
from tests.faults.clients import Nodes
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.fleet import FleetNodes
from tests.support.service import environ_of
from tests.support.waiting import until

READ: Mapping[str, Any] = {"sql": "SELECT max(id) FROM entries"}
REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "write": {"sql": "INSERT INTO entries (text) VALUES ('a text')", "write": True},
    "fresh read": READ,
    "stale read": {**READ, "stale_ok": True},
}
PAUSE_SECONDS, AFTER_SECONDS = 0.02, 3.0
STEADY = 20
"""Answers that each client gets before a kill."""


def kill_service(fleet: FaultyFleet, node: int) -> None:
    fleet.machines.kill(node)


def stop_service(fleet: FaultyFleet, node: int) -> None:
    fleet.machines.servers[node - 1].stop()


def kill_server(fleet: FaultyFleet, node: int) -> None:
    fleet.kill_servers(node)


KINDS: Mapping[str, tuple[Callable[[FaultyFleet], int], Callable[[FaultyFleet, int], None]]] = {
    "SIGTERM of the node that writes": (FaultyFleet.writer, stop_service),
    "kill -9 of the node that writes": (FaultyFleet.writer, kill_service),
    "kill -9 of the leader of the log": (FaultyFleet.leader, kill_service),
    "kill -9 of the leading nats-server": (FaultyFleet.leader, kill_server),
}


class Clients:
    """Clients of each kind and node, with the times of their answers."""

    def __init__(self, fleet: FaultyFleet) -> None:
        self._nodes = Nodes(fleet.machines, fleet.alive)
        self._stop = threading.Event()
        self.answers = {(kind, node): list[float]() for kind in REQUESTS for node in fleet.alive}

    def _repeat(self, kind: str, node: int) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                if self._nodes.sql(node, dict(REQUESTS[kind])).status_code == 200:
                    self.answers[kind, node].append(time.monotonic())
            except (httpx.TransportError, OSError, ValueError):
                continue  # The node does not run.

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests within the context."""
        threads = [threading.Thread(target=self._repeat, args=each) for each in self.answers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self._nodes.close()


def pauses(fleet: FaultyFleet, kind: str) -> tuple[int, dict[str, float]]:
    """Return the node of one kill, and the pause of each kind of request."""
    choose, harm = KINDS[kind]
    clients = Clients(fleet)
    with clients.running():
        until(lambda: all(len(times) > STEADY for times in clients.answers.values()), 120)
        victim = choose(fleet)
        others = {each: times for each, times in clients.answers.items() if each[1] != victim}
        killed = time.monotonic()
        harm(fleet, victim)
        until(lambda: all(times[-1] > killed + AFTER_SECONDS for times in others.values()), 120)
    found = dict.fromkeys(REQUESTS, 0.0)
    for (request, _), times in others.items():
        answers = [killed, *(each for each in times if each > killed)]
        found[request] = max([found[request], *(b - a for a, b in itertools.pairwise(answers))])
    return victim, found


def main(kinds: list[str], times: int) -> None:
    """Measure, print and store the figures."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="svc-bench-pauses-") as folder:
        root = Path(folder)
        nodes = FleetNodes(root, project(root / "shop"), environ_of(root / "home"))
        with closing(nodes):
            nodes.form()
            fleet = FaultyFleet(nodes)
            for kind in kinds:
                found = {request: list[float]() for request in REQUESTS}
                for _ in range(times):
                    victim, seconds = pauses(fleet, kind)
                    for request, longest in seconds.items():
                        found[request].append(longest)
                    if nodes.servers[victim - 1].process.poll() is not None:
                        nodes.restart(victim)
                    fleet.wait_for_copies()
                for request, measured in found.items():
                    p50, longest = statistics.median(measured), max(measured)
                    figures |= {f"{kind}: {request} p50": p50, f"{kind}: {request} longest": longest}
                    print(f"{kind:36} {request:12} p50 {p50:5.2f} s  longest {longest:5.2f} s", flush=True)
    write_results("pauses", figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.pauses")
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help="; ".join(KINDS))
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    if unknown := set(given.kinds) - KINDS.keys():
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    main(given.kinds, given.times)
