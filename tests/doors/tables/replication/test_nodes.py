"""Replicated tables on three nodes: reads, conflicts, failures and repair."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from doors.tables.replication.copy import seed
from doors.tables.replication.errors import ReplicationError
from doors.tables.sqlite.connections import apsw, open_owner, set_storage_quota
from engine.door import Session
from tests.doors.tables.replication.memory_log import MemoryLog, MemoryLogs
from tests.doors.tables.replication.nodes import Node, content, run_nodes

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)"
ALL = "SELECT id, v FROM t ORDER BY id"
COUNT_TO_A_MILLION = """
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000)
    SELECT 1 UNION ALL SELECT count(*) FROM numbers"""


def test_write_on_any_node_is_read_on_all(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        for number, node in enumerate(nodes):
            status, _ = await node.send("exec", "INSERT INTO t (v) VALUES ($1)", f"n{number}")
            assert status == 200
            for reader in nodes:
                _, found = await reader.send("query", "SELECT v FROM t WHERE id = $1", number + 1)
                assert found["rows"] == [{"v": f"n{number}"}]

    run_nodes(tmp_path, scenario)


def test_concurrent_writes_of_all_nodes_are_present_once(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)

        async def write(node: Node, text: str) -> str:
            status, document = await node.send("exec", "INSERT INTO t (v) VALUES ($1)", text)
            assert status == 200, document
            return text

        writes = [write(node, f"{node.data.parent.name}{number}") for number in range(60) for node in nodes]
        owners = [node.change(f"INSERT INTO t (v) VALUES ('owner {at}')") for at, node in enumerate(nodes)]
        acknowledged, _ = await asyncio.gather(asyncio.gather(*writes), asyncio.gather(*owners))
        expected = sorted([*acknowledged, "owner 0", "owner 1", "owner 2"])
        for node in nodes:
            assert sorted(row[0] for row in await node.rows("SELECT v FROM t")) == expected

    run_nodes(tmp_path, scenario)


def test_delete_without_condition_is_replicated(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, "INSERT INTO t (v) VALUES ('x'), ('y')")
        assert (await nodes[1].send("exec", "DELETE FROM t"))[0] == 200
        assert await nodes[2].rows(ALL) == []

    run_nodes(tmp_path, scenario)


def test_without_majority_fresh_reads_and_writes_fail_and_stale_reads_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.replication.replica.WRITER_SECONDS", 0.2)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, "INSERT INTO t (v) VALUES ('x')")
        assert (await nodes[1].send("query", ALL))[0] == 200
        logs.available = False
        write = "INSERT INTO t (v) VALUES ('y')"
        failed = await asyncio.gather(
            nodes[1].send("query", ALL),
            nodes[1].send("query", ALL, stale_reads=True, stale_ok=False),
            nodes[1].send("query", ALL, stale_reads=True, session=Session(10**17)),
            nodes[1].send("exec", write),
            nodes[1].send("exec", write, stale_reads=True),
        )
        for (status, document), what in zip(failed, ["read"] * 3 + ["write"] * 2, strict=True):
            assert (status, document["code"]) == (503, "unavailable")
            assert f"the fleet does not answer the {what}: no majority" == document["detail"]
        for options in ({"stale_ok": True}, {"stale_reads": True}):
            status, document = await nodes[1].send("query", ALL, **options)
            assert (status, document["rows"]) == (200, [{"id": 1, "v": "x"}])
        with pytest.raises(ReplicationError, match="no majority"):
            await nodes[1].rows(ALL)
        logs.available = True
        assert (await nodes[1].send("exec", "INSERT INTO t (v) VALUES ('z')"))[0] == 200
        assert await nodes[0].rows("SELECT v FROM t ORDER BY id") == [("x",), ("z",)]

    run_nodes(tmp_path, scenario)


@pytest.mark.parametrize("options", [{"stale_reads": True}, {"stale_ok": True}])
@pytest.mark.parametrize("writing", [0, 1])
def test_stale_read_has_the_last_write_of_its_session(
    tmp_path: Path, options: dict[str, bool], writing: int
) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, "INSERT INTO t (v) VALUES ('x')")
        for node in nodes:
            assert (await node.send("query", ALL))[0] == 200
        logs.loses_news = True
        session, batch = Session(), [{"sql": "INSERT INTO t (v) VALUES ('z')"}]
        assert (await nodes[writing].send("exec", "INSERT INTO t (v) VALUES ('y')", session=session))[
            0
        ] == 200
        first = session.written
        assert (await nodes[writing].send("batch", "", statements=batch, session=session))[0] == 200
        assert 0 < first < session.written == logs.sequence
        for node in nodes:
            _, document = await node.send(
                "query", "SELECT v FROM t", session=Session(logs.sequence), **options
            )
            assert document["rows"] == [{"v": "x"}, {"v": "y"}, {"v": "z"}]
        status, _ = await nodes[2].send("query", ALL, session=Session(10**17), **options)
        assert status == 200

    run_nodes(tmp_path, scenario)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE k (name TEXT PRIMARY KEY)",
        "CREATE TABLE k (name TEXT NOT NULL COLLATE NOCASE PRIMARY KEY)",
        "CREATE TABLE k AS SELECT random() AS r",
    ],
)
def test_schema_that_cannot_be_replicated_is_refused(tmp_path: Path, statement: str) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        with pytest.raises(ReplicationError) as refused:
            await nodes[0].change(statement)
        assert refused.value.code == "not-replicable"
        assert await nodes[1].rows("SELECT name FROM sqlite_schema WHERE name = 'k'") == []

    run_nodes(tmp_path, scenario)


def test_file_that_was_changed_outside_is_put_aside_and_built_from_the_log(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE, "INSERT INTO t (v) VALUES ('x')")
        assert await nodes[1].rows(ALL) == [(1, "x")]
        foreign = apsw.Connection(str(nodes[1].path))
        foreign.execute("DELETE FROM t")
        foreign.close()
        await nodes[0].change("UPDATE t SET v = 'new'")
        assert await nodes[1].rows(ALL) == [(1, "new")]
        assert list(nodes[1].path.parent.glob("tables.db.aside-*"))

    run_nodes(tmp_path, scenario)


def test_existing_tables_are_carried_to_all_nodes(tmp_path: Path) -> None:
    data = tmp_path / "a" / "shop" / "tables"
    data.mkdir(parents=True)
    owner = open_owner(data / "tables.db")
    owner.execute(TABLE)
    for _ in range(3):
        owner.execute("INSERT INTO t (v) VALUES (hex(randomblob(700000)))")
    expected = owner.execute(ALL).fetchall()
    owner.close()

    async def main() -> None:
        logs = MemoryLogs()
        await seed(logs.node("a"), data / "tables.db")
        first = Node(logs, tmp_path, "a")
        second = Node(logs, tmp_path, "b")
        assert await second.rows(ALL) == await first.rows(ALL) == expected
        await first.change("ALTER TABLE t ADD COLUMN w", "UPDATE t SET w = id WHERE id < 3")
        assert await second.rows("SELECT w FROM t") == [(1,), (2,), (None,)]
        await first.close()
        await second.close()

    asyncio.run(main())
    assert not list(data.glob("*.aside-*"))


def test_node_that_returns_catches_up(tmp_path: Path) -> None:
    async def main() -> None:
        logs = MemoryLogs()
        first, second = Node(logs, tmp_path, "a"), Node(logs, tmp_path, "b")
        await first.change(TABLE)
        assert await second.rows(ALL) == []
        await second.close()
        await first.change("INSERT INTO t (v) VALUES ('x')")
        second = Node(logs, tmp_path, "b")
        assert await second.rows(ALL) == [(1, "x")]
        await first.close()
        await second.close()

    asyncio.run(main())
    assert not list(tmp_path.rglob("*.aside-*"))


def test_write_whose_answer_was_lost_is_applied_once_when_it_is_repeated_with_its_key(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        insert = "INSERT INTO t (v) VALUES ($1) RETURNING id"
        for number, (first, second) in enumerate([(0, 0), (0, 1), (2, 1)]):
            key = {"idempotency_key": f"key {number}"}
            logs.loses_answers = True
            status, document = await nodes[first].send("exec", insert, "x", **key)
            assert (status, document["code"]) == (503, "unavailable")
            logs.loses_answers = False
            for node in (nodes[second], *nodes):
                status, document = await node.send("exec", insert, "x", **key)
                assert (status, document["last_id"]) == (200, number + 1)
        assert await nodes[2].rows("SELECT count(*) FROM t") == [(3,)]

    run_nodes(tmp_path, scenario)


def test_write_that_is_sent_to_all_nodes_at_once_is_applied_once(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        insert = "INSERT INTO t (v) VALUES ($1)"
        for number in range(10):
            sent = [node.send("exec", insert, "x", idempotency_key=f"{number}") for node in nodes * 3]
            answers = await asyncio.gather(*sent)
            assert {document["last_id"] for _, document in answers} == {number + 1}, answers
        assert await nodes[0].rows("SELECT count(*) FROM t") == [(10,)]

    run_nodes(tmp_path, scenario)


def test_write_without_effect_has_seen_all_writes_of_other_nodes(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first, second, third = nodes
        await first.change("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT UNIQUE)")
        await asyncio.gather(*(node.rows("SELECT * FROM u") for node in nodes))
        logs.loses_news = True
        for number in range(5):
            status, document = await first.send("exec", "INSERT INTO u VALUES ($1, 'x')", number)
            assert (status, document["changes"]) == (200, 1), document
            status, document = await second.send("exec", "UPDATE u SET v = 'y' WHERE id = $1", number)
            assert (status, document["changes"]) == (200, 1), document
            status, document = await third.send("exec", "INSERT INTO u VALUES (-1, 'y')")
            assert (status, document["code"]) == (409, "constraint"), document
            status, document = await third.send("exec", "UPDATE u SET v = NULL WHERE v = 'y'")
            assert (status, document["changes"]) == (200, 1), document

    run_nodes(tmp_path, scenario)


def test_repeated_old_and_early_news_change_nothing(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        logs.repeats_news = True
        await nodes[0].change(TABLE)
        for number in range(20):
            node = nodes[number % 3]
            assert (await node.send("exec", "INSERT INTO t (v) VALUES ($1)", f"{number}"))[0] == 200
        expected = [(number + 1, f"{number}") for number in range(20)]
        for node in nodes:
            assert await node.rows(ALL) == expected

    run_nodes(tmp_path, scenario)


def test_transaction_over_the_limit_of_the_log_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryLog, "max_messages", 3)

    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        with pytest.raises(ReplicationError, match="more than a transaction of a fleet can have") as refused:
            await nodes[0].change(*["INSERT INTO t (v) VALUES (randomblob(900000))"] * 4)
        assert refused.value.code == "too-large"
        await nodes[0].change("INSERT INTO t (v) VALUES ('x')")
        for node in nodes:
            assert await node.rows(ALL) == [(1, "x")]

    run_nodes(tmp_path, scenario)


def test_close_waits_for_the_thread_that_uses_the_copy(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        assert await content(nodes[0])
        follower = nodes[0].replicas.of(nodes[0].data).copy
        copy = follower._copy
        assert copy is not None
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for _ in copy._connection.execute(COUNT_TO_A_MILLION):
                loop.call_soon_threadsafe(started.set)

        follower.spawn(follower.in_thread(read))
        await started.wait()

    run_nodes(tmp_path, scenario, "a")


def test_keyed_write_that_a_quota_refuses_is_stored_on_no_node(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        first = nodes[0]
        await first.change("CREATE TABLE parents (id INTEGER PRIMARY KEY, v TEXT)")
        set_storage_quota(first.path, 1 << 20)
        try:
            for size in (120_000, 3000):
                while (await first.send("exec", "INSERT INTO parents (v) VALUES ($1)", "x" * size))[0] == 200:
                    pass
            insert, keyed = "INSERT INTO parents VALUES (2000, 'x')", {"idempotency_key": "q0"}
            updates = [first.send("exec", "UPDATE parents SET v = '' WHERE id = 1") for _ in range(5)]
            (status, refused), *updated = await asyncio.gather(first.send("exec", insert, **keyed), *updates)
            assert (status, refused["code"]) == (507, "storage-quota")
            assert [status for status, _ in updated] == [200] * 5
            for node in nodes:
                assert await node.rows("SELECT id FROM parents WHERE id = 2000") == []
                assert await node.rows("SELECT v FROM parents WHERE id = 1") == [("",)]
        finally:
            set_storage_quota(first.path, None)

    run_nodes(tmp_path, scenario)


def test_lag_is_how_long_a_copy_has_lacked_an_entry(tmp_path: Path) -> None:
    async def scenario(nodes: list[Node], logs: MemoryLogs) -> None:
        await nodes[0].change(TABLE)
        replicas = [node.replicas.of(node.data) for node in nodes[:2]]
        for replica in replicas:
            await replica.reach(logs.sequence)
        assert [replica.copy.lag_ms for replica in replicas] == [0, 0]
        replicas[1].copy.begin_write()  # Stops it from applying entries.
        for number in count():  # The first may come to entries that are being applied.
            await nodes[0].change(f"INSERT INTO t (v) VALUES ('{number}')")
            await asyncio.sleep(0.002)
            if replicas[1].copy.lag_ms:
                break
        lags = set[int]()
        while len(lags) < 3:
            lags.add(replicas[1].copy.lag_ms)
            await asyncio.sleep(0.001)
        assert 0 < max(lags) < 30_000
        assert replicas[0].copy.lag_ms == 0
        replicas[1].copy.end_write(None)
        await replicas[1].reach(logs.sequence)
        assert replicas[1].copy.lag_ms == 0

    run_nodes(tmp_path, scenario)
