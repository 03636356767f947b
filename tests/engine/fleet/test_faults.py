"""Reads and writes while nodes are killed, paused, or lose content."""

import asyncio
import json
import os
import signal
import time
from contextlib import aclosing

import pytest

from engine.bucket.protocols import BlobCorrupt, Bucket, Digest, StaleRevision, TooLarge
from engine.fleet.bucket import NEWS_SECONDS, JetStream, JetStreamBucket, StreamKeyValue
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import Unavailable
from tests.engine.bucket.test_blobs import FUTURE, LARGE, LARGE_NAME, pieces
from tests.engine.fleet.cluster import Cluster, pid_of
from tests.support.blobs import exists, put
from tests.support.buckets import Use
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def opened(bucket: Bucket) -> JetStreamBucket:
    assert isinstance(bucket, JetStreamBucket)
    return bucket


async def reopened(bucket: Bucket, cluster: Cluster) -> JetStreamBucket:
    """Return the same bucket on a connection of its own."""
    uploads = opened(bucket).blobs._uploads
    other = await NatsConnection.open(cluster.address)
    return JetStreamBucket(other, opened(bucket).namespace, uploads.with_name("other-uploads"))


def test_acknowledged_writes_survive_kills_of_every_node(
    cluster: Cluster, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.connection.PATIENCE_SECONDS", 60.0)

    async def scenario(bucket: Bucket) -> None:
        stopped = asyncio.Event()
        acknowledged = 0

        async def count() -> None:
            nonlocal acknowledged
            while not stopped.is_set():
                value = await bucket.kv.get("n")
                number = int(value.value) if value is not None else 0
                answer = await bucket.kv.cas("n", b"%d" % (number + 1), value.revision if value else None)
                acknowledged += isinstance(answer, int)

        async def progress(minimum: int) -> None:
            await asyncio.to_thread(
                until, lambda: acknowledged >= minimum or any(task.done() for task in counting)
            )
            for task in counting:
                if task.done():
                    await task

        counting = [asyncio.ensure_future(count()) for _ in range(3)]
        # The copies of streams exist on each node before the first kill.
        await progress(20)
        await asyncio.to_thread(cluster.wait)
        for node in cluster.nodes:
            before = pid_of(node)
            assert before is not None
            os.kill(before, signal.SIGKILL)
            await asyncio.to_thread(until, lambda node=node, before=before: pid_of(node) != before)
            await asyncio.to_thread(cluster.wait)
            await progress(acknowledged + 20)
        stopped.set()
        await asyncio.gather(*counting)
        value = await bucket.kv.get("n")
        assert value is not None
        assert int(value.value) == acknowledged >= 20 * len(cluster.nodes)

    use(scenario)


def test_writes_without_majority_fail_and_go_on_after_it_returns(
    cluster: Cluster, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bucket: Bucket) -> None:
        first = await bucket.kv.cas("a", b"one", None)
        assert isinstance(first, int)
        with cluster.paused(1), cluster.paused(2), monkeypatch.context() as patch:
            patch.setattr("engine.fleet.connection.PATIENCE_SECONDS", 1.0)
            with pytest.raises(Unavailable, match=r"did not answer .* within 1 s"):
                await bucket.kv.cas("b", b"two", None)
        await asyncio.to_thread(cluster.wait)
        second = await bucket.kv.get("b")
        assert isinstance(await bucket.kv.cas("b", b"three", second and second.revision), int)

    use(scenario)


def test_client_of_a_frozen_server_continues_with_another(cluster: Cluster, use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        url = opened(bucket).kv._stream._connection._client.connected_url
        listening = [str(each.node.address) for each in cluster.nodes]
        with cluster.paused(listening.index(url.netloc)):
            async with asyncio.timeout(60):
                assert await bucket.kv.get("a") is None

    use(scenario)
    cluster.wait()


def test_repeated_write_is_stored_once(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        stream = opened(bucket).kv._stream
        connection = stream._connection
        request = connection._client.request
        sent = 0

        async def lose_answers(subject: str, *args: object, **kwargs: object) -> object:
            nonlocal sent
            answer = await request(subject, *args, **kwargs)  # type: ignore[arg-type]
            if subject.startswith("svc-kv."):
                sent += 1
                if sent < 4:
                    raise TimeoutError
            return answer

        connection._client.request = lose_answers  # type: ignore[method-assign, assignment]
        revision = await bucket.kv.cas("a", b"one", None)
        assert sent == 4
        value = await bucket.kv.get("a")
        assert value is not None
        assert value.revision == revision

    use(scenario)


def test_batch_is_stored_once_or_not_at_all(cluster: Cluster, use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        connection = opened(bucket).kv._stream._connection
        stream = JetStream(connection, "test-batches", "main")
        await stream.create(allow_atomic=True)
        contents = [b"%d" % number * 100_000 for number in range(30)]
        first = await stream.publish("a", b"before", expected=0)
        assert first == 1
        assert await stream.publish_batch("a", contents, expected=1) == 31
        assert await stream.publish_batch("a", contents, expected=1) is None
        assert [message.content async for message in stream.messages("a", 1)] == contents

        request = connection._client.request
        failures = 0

        async def lose_an_answer(subject: str, *args: object, **kwargs: object) -> object:
            nonlocal failures
            answer = await request(subject, *args, **kwargs)  # type: ignore[arg-type]
            if subject == "test-batches.main.a" and not failures:
                failures += 1
                raise TimeoutError
            return answer

        connection._client.request = lose_an_answer  # type: ignore[method-assign, assignment]
        assert await stream.publish_batch("a", contents, expected=31) == 61
        assert failures == 1
        assert len([message async for message in stream.messages("a")]) == 61
        with pytest.raises(TooLarge):
            await stream.publish_batch("a", [b""] * 1001, expected=61)
        await connection.api("STREAM.DELETE.test-batches", {})

    use(scenario)


def test_watch_yields_changes_of_another_connection_in_order(cluster: Cluster, use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        writer, reader = opened(bucket).kv, await reopened(bucket, cluster)
        start = await writer.cas("live/a", b"0", None)
        assert isinstance(start, int)
        changes = reader.kv.watch("live/", start)
        revision = start
        waiting = asyncio.ensure_future(anext(changes))
        async with asyncio.timeout(19 * NEWS_SECONDS / 2):  # Without news, each change would take this twice.
            for number in range(1, 20):
                answer = await writer.cas("live/a", b"%d" % number if number < 19 else None, revision)
                assert isinstance(answer, int)
                revision = answer
                key, value = await waiting
                assert (key, value and value.revision) == ("live/a", answer if number < 19 else None)
                waiting = asyncio.ensure_future(anext(changes))
        waiting.cancel()
        await reader.aclose()

    use(scenario)


def test_blob_without_content_is_corrupt_and_can_be_uploaded_again(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        await put(bucket.blobs, LARGE)
        blobs = opened(bucket).blobs
        entry = await blobs._record(LARGE_NAME)
        assert entry is not None
        await blobs._contents.purge(entry[0].id)
        with pytest.raises(BlobCorrupt):
            while True:  # A replica that has not purged it may answer.
                await bucket.blobs.get(LARGE_NAME)
        assert not await exists(bucket.blobs, LARGE_NAME)
        await put(bucket.blobs, LARGE)
        assert await bucket.blobs.get(LARGE_NAME) == LARGE

    use(scenario)


def test_uploads_of_two_nodes_do_not_mix(cluster: Cluster, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    purged, purge, cas = list[str](), JetStream.purge, StreamKeyValue.cas
    recorded = list[str]()

    async def purge_and_note(self: JetStream, subject: str, up_to: int | None = None) -> None:
        await purge(self, subject, up_to)
        purged.append(subject)

    async def cas_and_note(
        self: StreamKeyValue, key: str, value: bytes | None, revision: int | None
    ) -> int | StaleRevision:
        answer = await cas(self, key, value, revision)
        if isinstance(answer, int):
            recorded.append(json.loads(value or b"{}").get("id", ""))
        return answer

    monkeypatch.setattr(JetStream, "purge", purge_and_note)
    monkeypatch.setattr(StreamKeyValue, "cas", cas_and_note)

    async def scenario(bucket: Bucket) -> None:
        async with aclosing(await reopened(bucket, cluster)) as other:
            half = len(LARGE) // 2
            assert await bucket.blobs.upload(LARGE_NAME, len(LARGE), 0, pieces(LARGE[:half])) == half
            assert await other.blobs.received(LARGE_NAME) == 0
            answers = await asyncio.gather(
                bucket.blobs.upload(LARGE_NAME, len(LARGE), half, pieces(LARGE[half:])),
                other.blobs.upload(LARGE_NAME, len(LARGE), 0, pieces(LARGE)),
            )
            assert answers == [len(LARGE)] * 2
            for each in (opened(bucket), other):
                assert await each.blobs.get(LARGE_NAME) == LARGE
                assert not [*each.blobs._uploads.iterdir()]
            (record,) = await other.blobs._records.list("")
            left = await other.blobs._contents.subjects(">") - {json.loads(record.value)["id"]}
            # A node that restarts may have lost a record, which then was stored twice.
            assert left <= {*purged, *recorded}
            async with asyncio.timeout(60):
                while len(await other.blobs._contents.subjects(">")) > 1:  # A cluster may lose a removal.
                    await other.blobs.purge_orphans(time.time_ns())

    use(scenario)


def test_delete_uploads_purges_orphans_and_retains_blobs(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        blobs = opened(bucket).blobs
        name = await put(bucket.blobs, b"content")
        await blobs._contents.publish("0123456789abcdef", b"orphan", expected=0)
        record = {"id": "fedcba9876543210", "size": 0, "used_ns": 1, "complete": False}
        await blobs._contents.publish("fedcba9876543210", b"upload of an earlier svc", expected=0)
        await blobs._records.cas(f"{name}/shop", json.dumps(record).encode(), None)
        assert await bucket.blobs.delete_uploads(FUTURE, count_only=True) == 0
        assert await bucket.blobs.delete_uploads(0) == 0
        assert len(await blobs._contents.subjects(">")) == 3
        assert await bucket.blobs.delete_uploads(FUTURE) == 0
        assert len(await blobs._contents.subjects(">")) == 1
        assert await bucket.blobs.get(Digest(name)) == b"content"

    use(scenario)
