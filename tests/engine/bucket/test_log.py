"""The contract of the log, for every backend."""

import asyncio
from contextlib import aclosing

from engine.bucket.protocols import Bucket, BucketLogEntry, StaleRevision
from tests.engine.bucket.conftest import Use


def test_entries_are_numbered_and_ordered_after_reopening(use: Use) -> None:
    async def write(bucket: Bucket) -> None:
        assert await bucket.log.last("a") == 0
        assert await bucket.log.read("a") == []
        assert [await bucket.log.append("a", b"%d" % n) for n in range(5)] == [1, 2, 3, 4, 5]
        assert await bucket.log.append("b", b"\0") == 1

    async def look(bucket: Bucket) -> None:
        assert await bucket.log.last("a") == 5
        assert await bucket.log.read("a", after=3) == [BucketLogEntry(4, b"3"), BucketLogEntry(5, b"4")]
        assert await bucket.log.read("a", limit=1) == [BucketLogEntry(1, b"0")]
        assert await bucket.log.read("a", after=5) == []
        assert await bucket.log.read("b") == [BucketLogEntry(1, b"\0")]

    use(write)
    use(look)


def test_append_requires_expected_last_number(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        assert await bucket.log.append("a", b"x", expect=1) == StaleRevision(0)
        assert await bucket.log.append("a", b"one", expect=0) == 1
        assert await bucket.log.append("a", b"x", expect=0) == StaleRevision(1)
        answers = await asyncio.gather(*(bucket.log.append("a", b"%d" % n, expect=1) for n in range(50)))
        assert sorted(answers, key=str).count(2) == 1
        assert answers.count(StaleRevision(2)) == 49

    use(scenario)


def test_concurrent_appends_get_distinct_numbers(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        numbers = await asyncio.gather(*(bucket.log.append("a", b"%d" % n) for n in range(300)))
        entries = await bucket.log.read("a")
        assert {(number, b"%d" % n) for n, number in enumerate(numbers)} == {
            (e.seq, e.content) for e in entries
        }
        assert [entry.seq for entry in entries] == list(range(1, 301))

    use(scenario)


def test_trim_removes_entries_and_never_reuses_numbers(use: Use) -> None:
    async def write(bucket: Bucket) -> None:
        for n in range(5):
            await bucket.log.append("a", b"%d" % n)
            await bucket.log.append("b", b"%d" % n)
        await bucket.log.trim("a", 3)
        await bucket.log.trim("c", 3)
        assert [entry.seq for entry in await bucket.log.read("a")] == [4, 5]
        await bucket.log.trim("a", 99)

    async def look(bucket: Bucket) -> None:
        assert await bucket.log.read("a") == []
        assert len(await bucket.log.read("b")) == 5
        assert await bucket.log.last("a") == 5
        assert await bucket.log.append("a", b"six", expect=5) == 6
        assert await bucket.log.read("a") == [BucketLogEntry(6, b"six")]

    use(write)
    use(look)


def test_follow_yields_every_entry_once(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        for n in range(300):
            await bucket.log.append("a", b"%d" % n)
        async with aclosing(bucket.log.follow("a", after=10)) as seen:
            assert [(await anext(seen)).seq for _ in range(290)] == list(range(11, 301))
            waiting = asyncio.ensure_future(anext(seen))
            await asyncio.sleep(0)
            await bucket.log.append("b", b"of another log")
            await bucket.log.append("a", b"new")
            assert await waiting == BucketLogEntry(301, b"new")

    use(scenario)


def test_closed_bucket_ends_follow(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        waiting = asyncio.ensure_future(anext(bucket.log.follow("a"), None))
        await asyncio.sleep(0)
        await bucket.aclose()
        assert await waiting is None

    use(scenario)
