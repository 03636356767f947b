"""Clients of a fleet: some write rows through a node each, others read all of them."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx

from tests.faults.applications import INSERT, SUMS, SUMS_SQL, body_of, random_transaction
from tests.faults.history import History, Outcome, Read, Write
from tests.support.fleet import FleetNodes

WRITERS = 2
"""Clients of each node that write. Another one reads."""
TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 0.02
REPEAT_SECONDS = 0.2
KEYED, STALE = 0.5, 0.2
"""The part of the writes of applications that have a key, and of their reads that may be stale."""
CONTROL = "control"
"""The control API, a way to the tables besides the applications."""
FIND = (
    "SELECT (SELECT count(*) FROM entries WHERE text = $1)"
    " || ' ' || (SELECT count(*) FROM entries WHERE text GLOB $2)"
)
NOT_STORED = {"busy", "bad-request", "constraint", "storage-quota"}
"""Codes of problems after which a write is not stored."""


class Nodes:
    """The control APIs of nodes."""

    def __init__(
        self, machines: FleetNodes, numbers: Sequence[int], timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self._machines = machines
        self._clients = {number: httpx.Client(timeout=timeout) for number in numbers}

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the nodes."""
        return list(self._clients)

    def sql(self, node: int, body: dict[str, Any]) -> httpx.Response:
        """Run a statement on a node. Raises `httpx.TransportError` and `OSError`."""
        endpoint = json.loads((self._machines.folder(node) / "control.json").read_bytes())
        headers = {"authorization": f"Bearer {endpoint['token']}"}
        address = f"{endpoint['url']}/v1/projects/shop/sql"
        with self._machines.at(node):
            return self._clients[node].post(address, json=body, headers=headers)

    def application(self, node: int, name: str, body: bytes) -> httpx.Response:
        """Send a request to an application. Raises `httpx.TransportError` and `OSError`."""
        with self._machines.at(node):
            return self._clients[node].post(
                f"http://127.0.0.1:{self._machines.servers[node - 1].port}/",
                content=body,
                headers={"host": f"{name}--shop.localhost"},
            )

    def rows(self, node: int, sql: str, *params: object) -> list[dict[str, Any]]:
        """Return the rows of a fresh read on a node."""
        answer = self.sql(node, {"sql": sql, "params": list(params)})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["rows"])

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()


class Clients:
    """The clients of one case. The rows of a case begin with its name."""

    def __init__(self, history: History, nodes: Nodes, applications: Sequence[str] = ()) -> None:
        self.history, self._nodes, self._applications = history, nodes, applications
        self._find = f"{FIND} || ' ' || {SUMS_SQL} AS found" if applications else f"{FIND} AS found"
        self._acked: list[str] = []
        self._stop = threading.Event()

    @property
    def acked(self) -> int:
        """The number of acknowledged writes so far."""
        return len(self._acked)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the clients within the context."""
        nodes = self._nodes.numbers
        with ThreadPoolExecutor((WRITERS + 1) * len(nodes)) as threads:
            works = [*[self._write] * WRITERS, self._read]
            clients = [
                threads.submit(self._repeat, work, node, number)
                for node in nodes
                for number, work in enumerate(works)
            ]
            try:
                yield
            finally:
                self._stop.set()
        for client in clients:
            client.result()

    def _repeat(self, work: Callable[[int, random.Random, str], None], node: int, number: int) -> None:
        client = f"{self.history.run}-{node}-{number}"
        chance = random.Random(f"{self.history.seed} {client}")
        for at in count():
            if self._stop.is_set():
                return
            work(node, chance, f"{client}-{at}")
            time.sleep(PAUSE_SECONDS)

    def _write(self, node: int, chance: random.Random, text: str) -> None:
        """Write a text in a transaction; repeat one that has a key on any node until its outcome is known."""
        begin = time.monotonic()
        way = chance.choice([CONTROL, *self._applications])
        statements = random_transaction(chance, text) if way != CONTROL else [(INSERT, text)]
        key = text if way != CONTROL and chance.random() < KEYED else ""
        kind = "exec" if len(statements) == 1 else "batch"
        outcome, shown = self._send(node, way, body_of(kind, *statements, key=key), text)
        while key and outcome == "unknown" and not self._stop.wait(REPEAT_SECONDS):
            again, shown = self._send(
                chance.choice(self._nodes.numbers), way, body_of(kind, *statements, key=key), text
            )
            outcome = "acked" if again == "acked" else outcome
        end = time.monotonic()
        self.history.writes.append(
            Write(text=text, node=node, begin=begin, end=end, outcome=outcome, answer=shown)
        )
        if outcome == "acked":
            self._acked.append(text)

    def _send(self, node: int, way: str, body: bytes, text: str) -> tuple[Outcome, str]:
        """Send a write; return its outcome, and the answer unless it succeeded."""
        try:
            if way == CONTROL:
                answer = self._nodes.sql(node, {"sql": INSERT, "params": [text], "write": True})
            else:
                answer = self._nodes.application(node, way, body)
            if answer.status_code == 200:
                return "acked", ""
            code = answer.json().get("code") if way == CONTROL else answer.text
            return "refused" if code in NOT_STORED else "unknown", f"{way} {answer.text[:200]}"
        except (httpx.ConnectError, FileNotFoundError) as error:  # Nothing was sent.
            return "refused", repr(error)
        except (httpx.TransportError, OSError, ValueError) as error:
            return "unknown", repr(error)

    def _read(self, node: int, chance: random.Random, _text: str) -> None:
        """Read one of the last rows that were acknowledged, count all, and check the sums."""
        acked, begin = self.acked, time.monotonic()
        if not acked:
            return
        text = self._acked[max(0, acked - 1 - chance.randrange(10))]
        way, stale = chance.choice([CONTROL, *self._applications]), False
        prefix = f"{self.history.run}-*"
        try:
            if way == CONTROL:
                answer = self._nodes.sql(node, {"sql": self._find, "params": [text, prefix]})
            else:
                stale = chance.random() < STALE
                body = body_of("query", (self._find, text, prefix), stale=stale)
                answer = self._nodes.application(node, way, body)
            if answer.status_code != 200:
                return
            shown = str(answer.json()["rows"][0]["found"]) if way == CONTROL else answer.text
        except (httpx.TransportError, OSError, ValueError):
            return
        found, number, *sums = shown.split()
        self.history.reads.append(
            Read(
                text=text,
                node=node,
                begin=begin,
                end=time.monotonic(),
                found=int(found),
                count=int(number),
                acked=0 if stale else acked,
                broken="" if " ".join(sums) in ("", SUMS) else f"{way} {shown}",
            )
        )
