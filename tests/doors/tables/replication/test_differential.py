"""Random statements on two nodes: all nodes have the same rows, schema and counters."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doors.tables.sqlite.connections import Error
from doors.tables.sqlite.errors import TablesError
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, asides, content, run_nodes
from tests.support.examples import examples

SCHEMA = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE, v, g AS (v || 'g') STORED)",
    "CREATE TABLE n (id INTEGER PRIMARY KEY, v, w)",
    "CREATE TABLE w (x TEXT NOT NULL, y NOT NULL, PRIMARY KEY (x, y)) WITHOUT ROWID",
    "CREATE TABLE log (id INTEGER PRIMARY KEY, text)",
    "CREATE TRIGGER after_a AFTER INSERT ON a BEGIN INSERT INTO log (text) VALUES (new.u); END",
    "CREATE VIRTUAL TABLE f USING fts5(text)",
)
NUMBER = st.integers(0, 9)
STATEMENT = st.one_of(
    st.builds("INSERT OR REPLACE INTO a (u, v) VALUES ({}, random())".format, NUMBER),
    st.builds("INSERT INTO a (id, u) VALUES ({0}, 'k{0}') ON CONFLICT DO UPDATE SET v = 7".format, NUMBER),
    st.builds("UPDATE a SET id = id + 100, u = -u WHERE id % 3 = {}".format, NUMBER),
    st.builds("DELETE FROM a WHERE id > {}".format, NUMBER),
    st.builds("INSERT INTO n (v, w) VALUES ({}, zeroblob({}))".format, NUMBER, st.integers(0, 70_000)),
    st.builds("UPDATE n SET w = NULL WHERE rowid = {}".format, NUMBER),
    st.builds("REPLACE INTO w VALUES ('k', {})".format, NUMBER),
    st.builds("UPDATE w SET y = y + 1 WHERE y > {}".format, NUMBER),
    st.builds("INSERT INTO f VALUES ('word{} both')".format, NUMBER),
    st.builds("DELETE FROM f WHERE rowid = {}".format, NUMBER),
    st.builds("ALTER TABLE n ADD COLUMN c{}".format, NUMBER),
    st.builds("ALTER TABLE n DROP COLUMN c{}".format, NUMBER),
    st.builds("CREATE TABLE x{} (id INTEGER PRIMARY KEY AUTOINCREMENT, v DEFAULT (random()))".format, NUMBER),
    st.builds("INSERT INTO x{} DEFAULT VALUES".format, NUMBER),
    st.builds("DROP TABLE x{}".format, NUMBER),
    st.builds("ALTER TABLE x{} RENAME TO x{}".format, NUMBER, NUMBER),
    st.builds("CREATE INDEX IF NOT EXISTS i{} ON a (v, u)".format, NUMBER),
    st.sampled_from(["DELETE FROM a", "DELETE FROM n", "DELETE FROM f", "ANALYZE", "REINDEX"]),
)
TRANSACTION = st.tuples(st.integers(0, 1), st.lists(STATEMENT, min_size=1, max_size=6))


@pytest.fixture(autouse=True, scope="module")
def frequent_snapshots() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("doors.tables.replication.follower.SNAPSHOT_BYTES", 15_000)
        yield


@given(transactions=st.lists(TRANSACTION, max_size=12))
@example(
    transactions=[
        (0, ["INSERT INTO a (u) VALUES (0)"]),
        (0, ["UPDATE a SET id = id + 100, u = -u WHERE id % 3 = 1"]),
    ]
)
@settings(max_examples=examples(20), deadline=None)
def test_replica_after_random_statements_is_equal(transactions: list[tuple[int, list[str]]]) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(*SCHEMA)
        for number, statements in transactions:
            try:
                await nodes[number].change(*statements)
            except (TablesError, Error):
                continue
        first = await content(nodes[0])
        late = Node(logs, nodes[0].data.parent.parent, "late")
        for node in (*nodes[1:], late):
            assert await content(node) == first
            assert not asides(node)
        await late.close()

    with tempfile.TemporaryDirectory() as folder:
        run_nodes(Path(folder), scenario)
