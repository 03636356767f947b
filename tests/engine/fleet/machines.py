"""Services on loopback that become a fleet, for tests of tables."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.engine.fleet.cluster import free_addresses
from tests.support.service import Server, environ_of, login, prepare, run, static_project
from tests.support.waiting import until

MIGRATION = """\
CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(text);
CREATE TRIGGER index_words AFTER INSERT ON entries BEGIN INSERT INTO words VALUES (new.text); END;
"""


class Machines:
    """Three nodes. `servers[0]` had a project with rows before it founded the fleet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = environ_of(root / "home")
        self.project = static_project(root / "shop")
        (self.project / "tables").mkdir()
        (self.project / "tables" / "0001-entries.sql").write_text(MIGRATION)
        self.servers = [Server(root / "m1", self.environ)]
        login(self.servers[0], self.project, self.environ)
        prepare(self.project, self.environ, "deploy")
        created = run(self.project, self.environ, "token", "create", "ci", "--role", "owner")
        self.token = created.stdout.split()[-1]
        self.client = httpx.Client(headers={"authorization": f"Bearer {self.token}"}, timeout=60)

    def form(self) -> None:
        """Found the fleet and start the other nodes."""
        addresses = free_addresses(3)
        data = ("--data", str(self.root / "m1"))
        started = run(self.project, self.environ, "fleet", "start", *data, "--listen", str(addresses[0]))
        assert started.returncode == 0, started.stderr
        tokens = [line.split()[-1] for line in started.stdout.splitlines() if "--join" in line]

        def join(number: int) -> Server:
            options = ("--join", tokens[number - 2], "--fleet-listen", str(addresses[number - 1]))
            return Server(self.root / f"m{number}", self.environ, *options)

        with ThreadPoolExecutor() as threads:
            self.servers += threads.map(join, (2, 3))
        until(lambda: self.state(1) == "member")

    def state(self, number: int) -> str:
        """Return the state in the file of a node."""
        document = json.loads((self.root / f"m{number}" / "fleet" / "fleet.json").read_bytes())
        return str(document["state"])

    def restart(self, number: int) -> None:
        """Start a node whose process has ended."""
        self.servers[number - 1] = self.servers[number - 1].restarted(self.environ)

    def kill(self, number: int) -> None:
        """Kill the process of a node."""
        self.servers[number - 1].process.kill()
        self.servers[number - 1].process.communicate()

    def environ_at(self, number: int) -> dict[str, str]:
        """Return an environment whose `svc` uses a node."""
        return {**self.environ, "SVC_URL": self.servers[number - 1].control, "SVC_TOKEN": self.token}

    def post(self, number: int, path: str, body: Any) -> httpx.Response:
        """Call the control API of a node."""
        return self.client.post(f"{self.servers[number - 1].control}/v1/projects/shop/{path}", json=body)

    def write(self, number: int, sql: str, *params: object) -> httpx.Response:
        """Run a statement that writes on a node."""
        return self.post(number, "sql", {"sql": sql, "params": list(params), "write": True})

    def rows(self, number: int, sql: str) -> list[list[Any]]:
        """Return the rows of a query on a node."""
        answer = self.post(number, "sql", {"sql": sql})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["rows"])

    def everywhere(self, sql: str, numbers: Sequence[int] = (1, 2, 3)) -> list[list[Any]]:
        """Return the rows of a query, which are equal on all nodes."""
        found = [self.rows(number, sql) for number in numbers]
        assert all(each == found[0] for each in found), found
        return found[0]

    def close(self) -> None:
        """Kill the services."""
        self.client.close()
        for server in self.servers:
            server.process.kill()
            server.process.communicate()


@contextmanager
def machines(root: Path) -> Iterator[Machines]:
    """Run one service, which `form` makes a fleet."""
    running = Machines(root)
    try:
        yield running
    finally:
        running.close()
