"""A fleet of three nodes that is backed up: the node that stores it is killed, another one continues."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engine.errors import SvcError
from engine.fleet.bucket import JetStreamBucket
from svc_tui.client import Client
from svc_tui.serve.storage import open_bucket
from tests.support.fleet import FleetNodes, require_nats
from tests.support.service import PASSWORD, Server, environ_of, run, static_project
from tests.support.waiting import until

pytestmark = pytest.mark.slow(seconds=60)


class BackedUpFleet:
    """The nodes, and the writes that they acknowledged."""

    def __init__(self, root: Path) -> None:
        self.root, self.url = root, f"file://{root}/store"
        project = static_project(root / "shop")
        (project / "tables").mkdir()
        schema = "create table item (id integer primary key, name text not null);"
        (project / "tables" / "0001-item.sql").write_text(schema)
        self.environ = environ_of(root / "home")
        self.nodes = FleetNodes(root, project, self.environ, options=("--backup", self.url))
        self.acked = list[str]()
        self.restored = 0

    def form(self) -> None:
        self.nodes.form()
        self.nodes.kill(1)
        self.nodes.restart(1)
        self.key = str(self.root / "secrets.key")
        Path(self.key).write_bytes((self.nodes.folder(1) / "secrets.key").read_bytes())

    def write(self, number: int, count: int = 20) -> None:
        """Write rows at a node, until it has acknowledged so many."""
        acked = 0
        while acked < count:
            name = f"row {len(self.acked)}.{number}"
            with (
                suppress(SvcError),
                Client(self.nodes.servers[number - 1].control, self.nodes.token) as client,
            ):
                body = {"sql": "insert into item (name) values ($1)", "params": [name], "write": True}
                client.call("POST", "/v1/projects/shop/sql", body)
                self.acked.append(name)
                acked += 1

    def storing(self) -> int:
        """Return the number of the node that stores the backup."""
        ids = {each: (self.nodes.folder(each) / "fleet" / "fleet.json").read_text() for each in (1, 2, 3)}

        async def claim() -> str:
            with suppress(SvcError):
                running = next(
                    each for each in (1, 2, 3) if self.nodes.servers[each - 1].process.poll() is None
                )
                async with open_bucket(self.nodes.folder(running), "test") as bucket:
                    assert isinstance(bucket, JetStreamBucket)
                    value = await bucket.fleet.get("backup")
                    return value.value.decode().partition(".")[0] if value is not None else ""
            return ""

        node = asyncio.run(claim())
        return next((each for each in ids if node and f'"node": "{node}"' in ids[each]), 0)

    def restore(self) -> Path | None:
        """Restore to a new folder; return it, or None without content."""
        self.restored += 1
        target = self.root / f"restored{self.restored}"
        command = ("restore", "--from", self.url, "--key", self.key, "--data", str(target))
        done = run(self.root, self.environ, *command)
        return target if done.returncode == 0 else None

    def has_all(self) -> bool:
        """Return whether a restore has each acknowledged row once."""
        target = self.restore()
        path = target / "projects" / "shop" / "tables" / "tables.db" if target is not None else Path("none")
        if not path.exists():
            return False
        with closing(sqlite3.connect(path)) as connection:
            rows = Counter(name for (name,) in connection.execute("select name from item"))
        assert set(rows.values()) <= {1}
        return rows.keys() >= set(self.acked)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[BackedUpFleet]:
    require_nats()
    fleet = BackedUpFleet(tmp_path)
    try:
        fleet.form()
        yield fleet
    finally:
        fleet.nodes.close()


def test_another_node_continues_the_backup_of_a_fleet(fleet: BackedUpFleet) -> None:
    fleet.write(2)
    until(fleet.has_all)
    first = fleet.storing()
    assert first
    others = [each for each in (1, 2, 3) if each != first]
    fleet.write(others[0])
    fleet.nodes.kill(first)
    fleet.write(others[0])
    fleet.write(others[1])
    until(fleet.has_all)
    assert fleet.storing() in others
    fleet.nodes.restart(first)
    fleet.write(first)
    until(fleet.has_all)
    key = ("--key", fleet.key)
    verified = run(fleet.root, fleet.environ, "backup", "verify", fleet.url, *key)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    data = ("--data", str(fleet.nodes.folder(fleet.storing())))
    verified = run(fleet.root, fleet.environ, "backup", "verify", fleet.url, "--full", *data, *key)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    live = ("restore", "--service", "--project", "shop", "--yes")
    refused = run(fleet.root, fleet.nodes.environ_at(others[0]), *live)
    assert refused.returncode == 1 and "the tables of a fleet cannot be replaced" in refused.stderr
    restored = fleet.restore()
    assert restored is not None
    fleet.nodes.close()
    server = Server(restored, fleet.environ)
    try:
        with Client(server.control, "") as client:
            token = client.call("POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
        with Client(server.control, token) as client:
            found = client.call("POST", "/v1/projects/shop/sql", {"sql": "select count(*) as n from item"})
        assert found["rows"] == [{"n": len(fleet.acked)}]
        assert server.get().text == "one"
    finally:
        server.stop()
