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

from tests.faults.history import History, Outcome, Read, Write
from tests.support.fleet import FleetNodes

WRITERS = 2
"""Clients of each node that write. Another one reads."""
TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 0.02
INSERT = "INSERT INTO entries (text) VALUES ($1)"
FIND = (
    "SELECT (SELECT count(*) FROM entries WHERE text = $1) AS found,"
    " (SELECT count(*) FROM entries WHERE text GLOB $2) AS number"
)
NOT_STORED = {"busy", "bad-request"}
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

    def __init__(self, history: History, nodes: Nodes) -> None:
        self.history, self._nodes = history, nodes
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

    def _write(self, node: int, _chance: random.Random, text: str) -> None:
        begin = time.monotonic()
        outcome: Outcome
        try:
            answer = self._nodes.sql(node, {"sql": INSERT, "params": [text], "write": True})
        except (httpx.ConnectError, FileNotFoundError) as error:  # Nothing was sent.
            outcome, shown = "refused", repr(error)
        except (httpx.TransportError, OSError, ValueError) as error:
            outcome, shown = "unknown", repr(error)
        else:
            shown = "" if answer.status_code == 200 else answer.text[:200]
            code = "" if answer.status_code == 200 else str(answer.json().get("code"))
            outcome = "acked" if not code else "refused" if code in NOT_STORED else "unknown"
        end = time.monotonic()
        self.history.writes.append(
            Write(text=text, node=node, begin=begin, end=end, outcome=outcome, answer=shown)
        )
        if outcome == "acked":
            self._acked.append(text)

    def _read(self, node: int, chance: random.Random, _text: str) -> None:
        """Read one of the last rows that were acknowledged, and count all."""
        acked, begin = self.acked, time.monotonic()
        if not acked:
            return
        text = self._acked[max(0, acked - 1 - chance.randrange(10))]
        try:
            answer = self._nodes.sql(node, {"sql": FIND, "params": [text, f"{self.history.run}-*"]})
        except (httpx.TransportError, OSError, ValueError):
            return
        if answer.status_code != 200:
            return
        row = answer.json()["rows"][0]
        self.history.reads.append(
            Read(
                text=text,
                node=node,
                begin=begin,
                end=time.monotonic(),
                found=row["found"],
                count=row["number"],
                acked=acked,
            )
        )
