"""Services on loopback that become a fleet, for tests of tables."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fleet import FleetNodes, require_nats
from tests.support.network import Network
from tests.support.service import environ_of, static_project
from tests.support.waiting import until

MIGRATION = """\
CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(text);
CREATE TRIGGER index_words AFTER INSERT ON entries BEGIN INSERT INTO words VALUES (new.text); END;
"""
INSERT = "INSERT INTO entries (text) VALUES ($1)"
TEXTS = "SELECT text FROM entries ORDER BY id"


class Machines(FleetNodes):
    """Three nodes. The first one had a project with tables before it founded the fleet."""

    def __init__(
        self,
        root: Path,
        network: Network | None = None,
        cache: Path | None = None,
        complete: Callable[[Path], None] = lambda project: None,
    ) -> None:
        """`complete` adds more to the project. `cache` has toolchains, and gets machine code."""
        project = static_project(root / "shop")
        (project / "tables").mkdir()
        (project / "tables" / "0001-entries.sql").write_text(MIGRATION)
        complete(project)
        super().__init__(root, project, environ_of(root / "home", cache), cache, network)
        self.client = httpx.Client(headers={"authorization": f"Bearer {self.token}"}, timeout=60)

    def post(self, number: int, path: str, body: Any) -> httpx.Response:
        """Call the control API of a node."""
        return self.client.post(f"{self.servers[number - 1].control}/v1/projects/shop/{path}", json=body)

    def write(self, number: int, sql: str, *params: object) -> httpx.Response:
        """Run a statement that writes on a node."""
        return self.post(number, "sql", {"sql": sql, "params": list(params), "write": True})

    def rows(self, number: int, sql: str) -> list[list[Any]]:
        """Return the rows of a query on a node, once the fleet answers."""
        answers: list[httpx.Response] = []

        def answered() -> bool:
            answers.append(self.post(number, "sql", {"sql": sql}))
            return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

        until(answered)
        assert answers[-1].status_code == httpx.codes.OK, answers[-1].text
        return list(answers[-1].json()["rows"])

    def everywhere(self, sql: str, numbers: Sequence[int] = (1, 2, 3)) -> list[list[Any]]:
        """Return the rows of a query, which are equal on all nodes."""
        found = [self.rows(number, sql) for number in numbers]
        assert all(each == found[0] for each in found), found
        return found[0]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """One service, which `form` makes a fleet."""
    require_nats()
    running = Machines(tmp_path_factory.mktemp("machines ü"))
    try:
        with running.client:
            yield running
    finally:
        running.close()
