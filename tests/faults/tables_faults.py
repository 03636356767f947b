"""Faults of tables: statements that a fleet must refuse, entries that do not fit, and damaged copies.

Each function returns once the nodes answer equally, or fails.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import httpx

from tests.faults.applications import body_of
from tests.faults.clients import Nodes
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.network import CUT
from tests.support.waiting import until

ANSWER_SECONDS = 120.0
ELECTION_SECONDS = 5.5
"""Longer than an election timeout of nats-server."""
LARGE, SMALL = 120_000, 3_000
"""Bytes of the rows that fill tables up to their quota."""
MARK, DAMAGED_MARK = "MARKER-AAAA", "MARKER-BBBB"
ROUNDS, DAMAGES = 4, 25
"""A case damages the files of a node so often, at so many places each."""


class Tables:
    """The tables of the project through each node."""

    def __init__(self, fleet: FaultyFleet, nodes: Nodes) -> None:
        self.fleet, self.nodes = fleet, nodes

    def write(self, node: int, sql: str, *params: object) -> httpx.Response:
        """Run a statement of an owner on a node, until the fleet answers definitely."""
        answers: list[httpx.Response] = []

        def answered() -> bool:
            answers.append(self.nodes.sql(node, {"sql": sql, "params": list(params), "write": True}))
            return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

        until(answered, ANSWER_SECONDS)
        return answers[-1]

    def change(self, node: int, sql: str, *params: object) -> None:
        """Run a statement of an owner on a node, which succeeds."""
        answer = self.write(node, sql, *params)
        assert answer.status_code == httpx.codes.OK, answer.text

    def everywhere(self, sql: str, *params: str) -> str:
        """Return the text `found` of a fresh query of an application, which is equal on all nodes."""
        found: dict[int, str] = {}

        def answered(node: int) -> bool:
            answer = self.nodes.application(
                node, self.fleet.applications[0], body_of("query", (sql, *params))
            )
            found[node] = answer.text
            return answer.status_code == httpx.codes.OK

        for node in self.nodes.numbers:
            until(lambda node=node: answered(node), ANSWER_SECONDS)
        assert len(set(found.values())) == 1, found
        return found[self.nodes.numbers[0]]


@contextmanager
def tables_of(fleet: FaultyFleet) -> Iterator[Tables]:
    """Use the tables through all nodes within the context."""
    nodes = Nodes(fleet.machines, fleet.alive)
    try:
        yield Tables(fleet, nodes)
    finally:
        nodes.close()


def full_quota(fleet: FaultyFleet) -> None:
    """Fill the tables up to their quota, and repeat keyed writes that it refuses."""
    with tables_of(fleet) as tables:
        lane = fleet.applications[0]
        insert = "INSERT INTO far (data) VALUES (randomblob(CAST($1 AS INTEGER)))"
        tables.change(1, "CREATE TABLE IF NOT EXISTS far (id INTEGER PRIMARY KEY, data BLOB)")
        size = fleet.tables(1).stat().st_size >> 20
        fleet.owner_command("quota", "set", "shop", "--storage", str(size + 2))
        try:

            def refused(node: int, size: int, key: str = "") -> bool:
                answer = tables.nodes.application(node, lane, body_of("exec", (insert, str(size)), key=key))
                return answer.text == "storage-quota"

            for size in (LARGE, SMALL):
                until(lambda size=size: refused(1, size), ANSWER_SECONDS)
            stored = tables.everywhere("SELECT '' || count(*) AS found FROM far")
            for key, node in enumerate(tables.nodes.numbers):
                assert refused(node, LARGE, f"refused-{time.monotonic()}-{key}")
            tables.change(1, "UPDATE counters SET n = n")
            assert tables.everywhere("SELECT '' || count(*) AS found FROM far") == stored
        finally:
            fleet.owner_command("quota", "rm", "shop")
        tables.change(1, "DROP TABLE far")


def refused_schemas(fleet: FaultyFleet) -> None:
    """Create tables whose rows would differ between nodes, and read the first rows of one that is right."""
    with tables_of(fleet) as tables:
        for sql in (
            "create/**/table bad as select random() r, now() n",
            "create table bad (id text primary key)",
            "create table bad (id text not null primary key, v)",
        ):
            answer = tables.write(2, sql)
            assert "does not replicate" in answer.text, answer.text
        assert (
            tables.everywhere("SELECT '' || count(*) AS found FROM sqlite_schema WHERE name = 'bad'") == "0"
        )
        tables.change(1, "CREATE TABLE IF NOT EXISTS keyed (id TEXT PRIMARY KEY) WITHOUT ROWID")
        tables.change(2, "INSERT OR REPLACE INTO keyed VALUES ('g'), ('b'), ('e'), ('a'), ('f')")
        tables.everywhere("SELECT group_concat(id) AS found FROM (SELECT id FROM keyed LIMIT 3)")
        tables.change(3, "DROP TABLE keyed")


def schemas_of_two_nodes(fleet: FaultyFleet) -> None:
    """Change the schema through two nodes at the same time."""
    with tables_of(fleet) as tables, ThreadPoolExecutor() as threads:

        def change(node: int) -> None:
            for sql in ("CREATE TABLE d{} (id INTEGER PRIMARY KEY)", "DROP TABLE d{}") * 5:
                tables.change(node, sql.format(node))

        list(threads.map(change, fleet.alive[:2]))


def stopped_writer(fleet: FaultyFleet) -> None:
    """Stop the writer, and read stale through the others: one statement and a batch."""
    writer = fleet.writer()
    with tables_of(fleet) as tables, fleet.paused(fleet.service(writer)):
        for node in tables.nodes.numbers:
            for kind in ("query", "batch") if node != writer else ():
                body = body_of(kind, ("SELECT 'x' AS found",), stale=True)
                answer = tables.nodes.application(node, fleet.applications[0], body)
                assert answer.status_code == httpx.codes.OK, answer.text
        time.sleep(ELECTION_SECONDS)


def early_leader(fleet: FaultyFleet) -> None:
    """Cut the leader when a node with an older log asks for votes, so that the third is elected at once."""
    leader = fleet.leader()
    older, next_leader = [node for node in fleet.alive if node != leader][:2]
    with fleet.links(CUT, (leader, older), (older, leader)):
        with fleet.paused(fleet.server(older)):
            time.sleep(ELECTION_SECONDS)
        with fleet.links(CUT, (leader, next_leader), (next_leader, leader)):
            time.sleep(2 * ELECTION_SECONDS)


def entry_that_does_not_fit(fleet: FaultyFleet) -> None:
    """Change a row of the writer outside of the log, then through it: the others cannot apply the entry."""
    writer = fleet.writer()
    with tables_of(fleet) as tables:
        tables.change(writer, "CREATE TABLE IF NOT EXISTS marks (id INTEGER PRIMARY KEY, text TEXT)")
        tables.change(writer, "INSERT OR REPLACE INTO marks VALUES (1, $1)", MARK)
        with closing(apsw.Connection(str(fleet.tables(writer)))) as foreign:
            foreign.set_busy_timeout(10_000)
            foreign.execute("UPDATE marks SET text = ? WHERE id = 1", (DAMAGED_MARK,))
        tables.change(writer, "UPDATE marks SET text = text || '!' WHERE id = 1")
        tables.everywhere("SELECT text AS found FROM marks")
        tables.change(writer, "DROP TABLE marks")


def damaged_mark(fleet: FaultyFleet) -> None:
    """Change a text in the copy of the writer, which does not run, and update it as soon as it starts."""
    node = fleet.writer()
    with tables_of(fleet) as tables:
        tables.change(node, "CREATE TABLE IF NOT EXISTS marks (id INTEGER PRIMARY KEY, text TEXT)")
        tables.change(node, "INSERT OR REPLACE INTO marks VALUES (1, $1)", MARK)
        fleet.machines.kill(node)
        with closing(apsw.Connection(str(fleet.tables(node)))) as copy:
            copy.execute("PRAGMA wal_checkpoint(truncate)")
        content = fleet.tables(node).read_bytes()
        assert MARK.encode() in content
        fleet.tables(node).write_bytes(content.replace(MARK.encode(), DAMAGED_MARK.encode()))
        fleet.machines.restart(node)
        tables.change(node, "UPDATE marks SET text = text || '!' WHERE id = 1")
        assert tables.everywhere("SELECT text AS found FROM marks") == f"{MARK}!"
        tables.change(node, "DROP TABLE marks")


def _damage(chance: random.Random, path: Path) -> None:
    """Change up to 8 bytes at a place of a file, if it has any."""
    size = path.stat().st_size
    if size:
        with path.open("r+b") as file:
            at = chance.randrange(size)
            file.seek(at)
            old = file.read(chance.randint(1, 8))
            file.seek(at)
            file.write(bytes(byte ^ chance.randint(1, 255) for byte in old))


def many_damages(fleet: FaultyFleet, *, stores: bool) -> None:
    """Change bytes in the copy of a node, or in its stores: while it does not run, and before it is killed.

    A node whose stores were damaged takes all data from the others.
    """
    chance = random.Random(fleet.seed)
    with tables_of(fleet) as tables:
        for number in range(ROUNDS):
            node = fleet.follower() if stores else chance.choice(fleet.alive)
            copy, store = fleet.tables(node), fleet.folder(node) / "fleet" / "nats" / "store"
            running = number % 2 == 0
            if not running:
                fleet.machines.kill(node)
            for _ in range(DAMAGES):
                files = list(store.rglob("*.blk")) if stores else [copy, copy.with_name("tables.db-wal")]
                if files := [path for path in files if path.exists()]:
                    _damage(chance, chance.choice(files))
            if running:
                fleet.machines.kill(node)
            if stores:
                fleet.command(node, "reseed")
            fleet.machines.restart(node)
            tables.everywhere("SELECT '' || count(*) AS found FROM counters")
            if stores:
                fleet.wait_for_copies()
