"""Logs of tables and their snapshots on a cluster."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.bucket.protocols import Bucket
from engine.fleet import tables_log
from engine.fleet.bucket import JetStream, JetStreamBucket
from engine.fleet.connection import NatsConnection, Patience
from engine.fleet.errors import ClusterRefused, Unavailable
from engine.fleet.tables_log import LEASE_SECONDS, SUBJECT, TablesLog
from engine.replication import LogSnapshot
from tests.doors.tables.replication.nodes import Node, answer, content
from tests.engine.fleet.cluster import Cluster
from tests.engine.fleet.test_faults import opened, reopened
from tests.support.buckets import Use

pytestmark = pytest.mark.slow
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"


class FleetLogs:
    """The logs of a bucket's namespace, as nodes use them on one connection."""

    def __init__(self, bucket: JetStreamBucket) -> None:
        self.bucket = bucket

    def node(self, name: str) -> TablesLog:
        return TablesLog(self.bucket.connection, self.bucket.namespace, "test", name, lambda: {"a", "b"})


class Interrupted(Exception):
    pass


def snapshot_of(content: bytes, sequence: int) -> LogSnapshot:
    digest = sha256(content).hexdigest()
    return LogSnapshot(sequence=sequence, schema=1, logged=sequence, digest=digest, size=len(content))


async def with_failing_request(
    bucket: JetStreamBucket, number: int, work: Callable[[], Awaitable[object]]
) -> bool:
    """Do work that is interrupted after so many requests; return whether it was completed.

    The renewals of the lease do not count.
    """
    connection = bucket.connection
    request, left = connection.request, number

    async def interrupt(
        subject: str, content: bytes, patience: Patience, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        nonlocal left
        if SUBJECT.encode() in subject.encode() + content:
            return await request(subject, content, patience, headers)
        left -= 1
        if left < 0:
            raise Interrupted
        return await request(subject, content, patience, headers)

    connection.request = interrupt  # type: ignore[method-assign]
    try:
        await work()
    except Interrupted:
        return False
    finally:
        del connection.request
    return True


def test_snapshot_that_is_interrupted_at_any_step_loses_nothing(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bucket: Bucket) -> None:
        logs = FleetLogs(opened(bucket))
        log = logs.node("x")
        await log.create()
        node = Node(logs, tmp_path, "a")
        await node.change(TABLE)
        copy = node.replicas.of(node.data).copy
        number = completed = 0
        while completed < 3:
            await node.change(f"INSERT INTO t (v) VALUES (hex(randomblob({number})))")
            total = await with_failing_request(logs.bucket, number, copy.take_snapshot)
            late = Node(logs, tmp_path, f"late-{number}")
            assert await content(late) == await content(node)
            await late.close()
            completed, number = completed + total, number + 1
        assert number > 15
        found = await log.snapshots("shop")
        assert [each.sequence for each in found.stored][1:] == [found.trimmed]
        first = (await log.read("shop", 0))[0]
        assert first.sequence > found.trimmed > 0
        monkeypatch.setattr("engine.fleet.tables_log.UNUSED_NS", 0)
        await node.change("INSERT INTO t (v) VALUES ('last')")
        await copy.take_snapshot()
        blobs = log._blobs("shop")
        named = {each.digest for each in (await log.snapshots("shop")).stored}
        assert {blob.digest async for blob in blobs.list()} == named
        assert len(await blobs._contents.subjects(">")) == len(named) == 2
        await node.close()

    use(scenario)


def test_snapshots_of_two_nodes_at_once_leave_two_that_can_be_read(
    cluster: Cluster, use: Use, tmp_path: Path
) -> None:
    async def scenario(bucket: Bucket) -> None:
        logs = FleetLogs(opened(bucket))
        other = FleetLogs(await reopened(bucket, cluster))
        first, second = logs.node("a"), other.node("b")
        await first.create()
        sequence = 0
        for number in range(12):
            sequence = await first.append("shop", [b"x"], sequence) or 0
            same = await first.append("shop", [b"x"], sequence) if number % 2 else sequence
            assert same
            contents = [b"%d" % number * 700_000, b"%d " % number * 700_000]
            files = [tmp_path / f"{number}-{at}" for at in range(2)]
            for file, data in zip(files, contents, strict=True):
                file.write_bytes(data)
            answers = await asyncio.gather(
                first.add_snapshot("shop", snapshot_of(contents[0], sequence), files[0]),
                second.add_snapshot("shop", snapshot_of(contents[1], same), files[1]),
                return_exceptions=True,
            )
            assert answers == [None, None]
            sequence = same
            found = await first.snapshots("shop")
            assert found.stored[0].sequence == sequence
            for snapshot in found.stored:
                copy = tmp_path / "copy"
                assert await second.read_snapshot("shop", snapshot, copy)
                assert copy.stat().st_size == snapshot.size
                copy.unlink()
            assert await first.last("shop") == sequence
        await other.bucket.aclose()

    use(scenario)


@pytest.fixture
def without_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the news of the election for the test's own new stream, which would repeat its requests."""

    async def ignore(*_: object) -> None: ...

    monkeypatch.setattr(NatsConnection, "_repeat_requests", ignore)


@pytest.mark.usefixtures("without_elections")
def test_append_whose_answer_is_lost_is_stored_once_after_the_duplicate_window(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        connection = opened(bucket).connection
        stream = JetStream(connection, "test-window", "main")
        await stream.create(allow_atomic=True, duplicate_window=10**8)
        request, dropped = connection._client.request, 0

        async def lose_an_answer(subject: str, *args: object, **kwargs: object) -> object:
            nonlocal dropped
            answer = await request(subject, *args, **kwargs)  # type: ignore[arg-type]
            if subject == "test-window.main.a" and not dropped:
                dropped += 1
                await asyncio.sleep(1)  # The server forgets the id of the message.
                raise TimeoutError
            return answer

        connection._client.request = lose_an_answer  # type: ignore[method-assign, assignment]
        assert await stream.publish_batch("a", [b"one"], expected=0) == 1
        dropped = 0
        assert await stream.publish_batch("a", [b"two", b"three"], expected=1) == 3
        assert [message.content async for message in stream.messages("a")] == [b"one", b"two", b"three"]
        await connection.api("STREAM.DELETE.test-window", {})

    use(scenario)


@pytest.mark.usefixtures("without_elections")
@pytest.mark.parametrize("contents", [[b"mine"], [b"mine", b"more"]])
def test_append_whose_answer_is_lost_and_that_was_trimmed_may_be_stored(
    use: Use, contents: list[bytes]
) -> None:
    async def scenario(bucket: Bucket) -> None:
        connection = opened(bucket).connection
        stream = JetStream(connection, "test-trimmed", "main")
        await stream.create(allow_atomic=True, duplicate_window=10**8)
        request = connection._client.request

        async def lose_the_answer(subject: str, *args: object, **kwargs: object) -> object:
            answer = await request(subject, *args, **kwargs)  # type: ignore[arg-type]
            if subject == "test-trimmed.main.a" and "error" not in json.loads(answer.data):
                connection._client.request = request  # type: ignore[method-assign]
                for expected in (len(contents), len(contents) + 1):
                    assert await stream.publish_batch("a", [b"others"], expected=expected)
                await stream.purge("a", len(contents) + 1)
                await asyncio.sleep(1)
                raise TimeoutError
            return answer

        connection._client.request = lose_the_answer  # type: ignore[method-assign, assignment]
        with pytest.raises(Unavailable):
            await stream.publish_batch("a", contents, expected=0)
        assert [message.content async for message in stream.messages("a")] == [b"others"]
        await connection.api("STREAM.DELETE.test-trimmed", {})

    use(scenario)


async def answer_nothing(name: str, content: bytes) -> bytes:
    return b""


async def holding(log: TablesLog) -> str:
    """Return the lease of a node that takes part once it has one."""
    async with asyncio.timeout(60):
        while not log.holds(log.lease):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return log.lease


def test_lease_of_a_node_that_disappears_ends_for_the_node_before_it_ends_for_others(
    cluster: Cluster, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may delay a renewal by more than the usual lease.
    seconds = 2 * LEASE_SECONDS
    monkeypatch.setattr(tables_log, "LEASE_SECONDS", seconds)

    async def scenario(bucket: Bucket) -> None:
        other = await reopened(bucket, cluster)
        first, second = FleetLogs(opened(bucket)).node("b"), FleetLogs(other).node("a")
        await first.create()
        async with first.take_part(answer_nothing):
            async with second.take_part(answer_nothing):
                lease, end = await holding(second), time.monotonic() + 1.5 * seconds
                while time.monotonic() < end:  # Renewed leases do not end.
                    assert not await first.is_over(lease)
                    assert second.holds(lease)
                    await asyncio.sleep(0.05)
                await other.connection._client.close()
                while not await first.is_over(lease):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                assert not second.holds(lease)
            assert first.holds(await holding(first))

    use(scenario)


def test_lease_ends_at_once_when_its_node_stops_or_starts_again(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        logs = FleetLogs(opened(bucket))
        observer, first, again = logs.node("b"), logs.node("a"), logs.node("a")
        await observer.create()
        async with first.take_part(answer_nothing):
            lease = await holding(first)
            assert not await observer.is_over(lease)
        assert await observer.is_over(lease)
        assert not first.holds(lease)
        killed = first.take_part(answer_nothing)
        await killed.__aenter__()
        lease = await holding(first)
        async with again.take_part(answer_nothing):
            assert await holding(again) != lease
            assert await observer.is_over(lease)
            assert await again.is_over(lease)
        await killed.__aexit__(None, None, None)

    use(scenario)


def test_writer_without_majority_answers_no_fresh_reads(cluster: Cluster, use: Use, tmp_path: Path) -> None:
    async def scenario(bucket: Bucket) -> None:
        address = replace(cluster.address, servers=cluster.address.servers[:1])
        alone = await JetStreamBucket.open(address, opened(bucket).namespace, tmp_path, create=False)
        logs = FleetLogs(alone)
        await logs.node("a").create()
        node = Node(logs, tmp_path, "a")
        await node.change(TABLE, "INSERT INTO t (v) VALUES ('x')")
        assert (await node.send("query", "SELECT v FROM t"))[0] == 200
        with ExitStack() as stack:
            for number in (1, 2):
                stack.enter_context(cluster.paused(number))
            await asyncio.sleep(LEASE_SECONDS)
            assert not node.replicas.of(node.data).writes
            status, document = await node.send("query", "SELECT v FROM t")
            assert (status, document["code"]) == (503, "unavailable")
            assert (await node.send("query", "SELECT v FROM t", stale_ok=True))[0] == 200
        await asyncio.to_thread(cluster.wait)
        assert await answer(node, "SELECT v FROM t") == [{"v": "x"}]
        await node.close()
        await alone.aclose()

    use(scenario)


@pytest.mark.alone
def test_request_without_an_answer_is_repeated_when_another_leader_is_elected(
    cluster: Cluster, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bucket: Bucket) -> None:
        connection = opened(bucket).connection
        stream = JetStream(connection, "test-election", "main")
        await stream.create()
        leader = None
        while leader is None:
            await asyncio.sleep(0.05)
            leader = (await connection.api("STREAM.INFO.test-election", {}))["cluster"].get("leader")
        [number] = [at for at, each in enumerate(cluster.nodes) if each.node.node == leader]
        servers = tuple(url for at, url in enumerate(cluster.address.servers) if at != number)
        other = await NatsConnection.open(replace(cluster.address, servers=servers))
        monkeypatch.setattr("engine.fleet.connection.TRY_SECONDS", 600)
        with cluster.paused(number):
            # The server of this connection has not noticed yet that the leader does not answer.
            publishing = JetStream(other, "test-election", "main").publish("a", expected=0)
            try:
                assert await asyncio.wait_for(publishing, 20) == 1
            finally:
                monkeypatch.undo()
                await other.aclose()
        await asyncio.to_thread(cluster.wait)
        with suppress(ClusterRefused):  # A repeated request finds no stream.
            await connection.api("STREAM.DELETE.test-election", {})

    use(scenario)


def test_call_of_another_node_returns_its_answer_or_says_that_it_may_have_been_taken(
    cluster: Cluster, use: Use
) -> None:
    async def scenario(bucket: Bucket) -> None:
        other = await reopened(bucket, cluster)
        nodes = {"a", "b"}
        first, second = (
            TablesLog(each.connection, other.namespace, "test", node, lambda: nodes)
            for each, node in ((opened(bucket), "a"), (other, "b"))
        )
        taken: list[bytes] = []
        waiting = asyncio.Event()

        async def take(name: str, content: bytes) -> bytes:
            taken.append(content)
            match content:
                case b"fail":
                    raise ValueError
                case b"never":
                    waiting.set()
                    await asyncio.Event().wait()
            return name.encode() + content

        assert await first.send("b", "shop", b"early") is None
        async with second.take_part(take):
            large = b"\n" * 4_000_000
            found = None
            for _ in range(600):  # Until the server of the caller knows of the other one.
                found = found or await first.send("b", "shop", large)
                await asyncio.sleep(0 if found else 0.1)
            assert found == b"shop" + large
            with pytest.raises(Unavailable):
                await first.send("b", "shop", b"fail")
            calling = asyncio.ensure_future(first.send("b", "shop", b"never"))
            await waiting.wait()
            nodes.remove("b")
            with pytest.raises(Unavailable):
                await calling
        assert taken == [large, b"fail", b"never"]
        await other.aclose()

    use(scenario)


def test_keyed_writes_are_applied_once_although_their_node_disappears(
    cluster: Cluster, use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bucket: Bucket) -> None:
        present = {"a", "b", "c"}
        buckets = {name: await reopened(bucket, cluster) for name in "abc"}

        class NodeLogs:
            def node(self, name: str) -> TablesLog:
                each = buckets[name]
                return TablesLog(each.connection, each.namespace, "test", name, lambda: present)

        await NodeLogs().node("a").create()
        nodes = {name: Node(NodeLogs(), tmp_path, name) for name in "abc"}
        await nodes["a"].change(TABLE)
        acknowledged: list[str] = []

        async def write(name: str, text: str) -> None:
            while True:
                status, document = await nodes[name].send(
                    "exec", "INSERT INTO t (v) VALUES ($1)", text, idempotency_key=text
                )
                if status == 200:
                    acknowledged.append(text)
                    return
                assert document["code"] in ("unavailable", "busy"), document
                name = "b" if name == "a" else "c"  # As a client that a balancer sends elsewhere.

        async def client(name: str, number: int) -> None:
            for at in range(25):
                await write(name if name in present else "c", f"{name}{number}-{at}")

        clients = [asyncio.ensure_future(client(name, number)) for name in "abc" for number in range(3)]
        while len(acknowledged) < 60:
            await asyncio.wait(clients, timeout=0.02)
        monkeypatch.setattr("engine.fleet.connection.PATIENCE_SECONDS", 5.0)
        await buckets["a"].connection._client.close()
        present.remove("a")
        await asyncio.gather(*clients)
        rows = await nodes["b"].rows("SELECT v FROM t")
        assert sorted(text for (text,) in rows) == sorted(acknowledged)
        assert len(acknowledged) == 9 * 25
        for node in nodes.values():
            await node.close()
        for each in buckets.values():
            await each.aclose()

    use(scenario)


def test_one_node_is_beside_the_leader(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        logs = FleetLogs(opened(bucket))
        await logs.node("x").create()
        leader = await JetStream(logs.bucket.connection, "svc-tables", "").leader()
        assert leader and await logs.node("x").leader() == leader

    use(scenario)


def test_write_waits_for_another_one_in_progress(use: Use) -> None:
    """A request without an answer is repeated, so that may be an earlier try of the same write."""

    async def scenario(bucket: Bucket) -> None:
        connection = opened(bucket).connection
        await FleetLogs(opened(bucket)).node("x").create()
        stream = JetStream(connection, "svc-tables", f"{opened(bucket).namespace}.progress")
        request, busy = connection.request, [10164, 10071]

        async def in_progress(
            subject: str, content: bytes, patience: Patience, headers: Mapping[str, str] | None = None
        ) -> dict[str, Any]:
            if headers and busy:
                return {"error": {"err_code": busy.pop()}}
            return await request(subject, content, patience, headers)

        connection.request = in_progress  # type: ignore[method-assign]
        try:
            first = await stream.publish("a", b"1", expected=0)
            assert first is not None and not busy
            busy.append(10164)
            assert await stream.publish("a", b"2", expected=0) is None and not busy
            assert await stream.publish("a", b"2", expected=first) == first + 1
        finally:
            del connection.request

    use(scenario)
