"""The contract of the key-value store, for every backend."""

import asyncio

import pytest

from engine.bucket.protocols import (
    MAX_NAME_LENGTH,
    MAX_VALUE_BYTES,
    BadName,
    Bucket,
    BucketClosed,
    StaleRevision,
    TooLarge,
    VersionedValue,
)
from tests.support.blobs import put
from tests.support.buckets import Use


def test_cas_requires_current_revision(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        cells = bucket.kv
        assert await cells.get("a") is None
        assert await cells.cas("a", b"none", 7) == StaleRevision(None)
        first = await cells.cas("a", b"one", None)
        assert isinstance(first, int)
        assert await cells.cas("a", b"two", None) == StaleRevision(first)
        second = await cells.cas("a", b"two\0", first)
        assert isinstance(second, int)
        assert second > first
        assert await cells.cas("a", b"late", first) == StaleRevision(second)
        assert await cells.get("a") == VersionedValue("a", b"two\0", second)

    use(scenario)


def test_removed_key_is_absent_and_can_be_created_again(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        cells = bucket.kv
        first = await cells.cas("a", b"one", None)
        assert isinstance(first, int)
        assert isinstance(removed := await cells.cas("a", None, first), int)
        assert await cells.get("a") is None
        assert await cells.list("") == []
        assert await cells.cas("a", b"again", removed) == StaleRevision(None)
        second = await cells.cas("a", b"", None)
        assert await cells.get("a") == VersionedValue("a", b"", second if isinstance(second, int) else 0)

    use(scenario)


def test_values_survive_reopening_and_revisions_increase(use: Use) -> None:
    async def write(bucket: Bucket) -> int | StaleRevision:
        await bucket.kv.cas("a", b"one", None)
        return await bucket.kv.cas("b", b"two", None)

    async def look(bucket: Bucket) -> list[VersionedValue]:
        return await bucket.kv.list("")

    async def write_more(bucket: Bucket) -> int | StaleRevision:
        return await bucket.kv.cas("c", b"three", None)

    second = use(write)
    assert [(cell.key, cell.value) for cell in use(look)] == [("a", b"one"), ("b", b"two")]
    assert use(write_more) > second


def test_list_selects_keys_by_prefix(use: Use) -> None:
    keys = [
        "live/a",
        "live/ü",
        "live/",
        "live",
        "live0",
        "live/\U0010fffd",
        "LIVE/a",
        "live/%_*",
        "km/x",
        "a b",
    ]

    async def scenario(bucket: Bucket) -> None:
        for key in keys:
            assert isinstance(await bucket.kv.cas(key, key.encode(), None), int)
        assert [cell.key for cell in await bucket.kv.list("")] == sorted(keys)
        for prefix in ("live/", "live", "l", "live/%", "live/ü", "a b", "%", "zzz"):
            expected = sorted(key for key in keys if key.startswith(prefix))
            assert [cell.key for cell in await bucket.kv.list(prefix)] == expected

    use(scenario)


def test_concurrent_cas_succeeds_once_per_revision(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        result = await asyncio.gather(*(bucket.kv.cas("a", b"%d" % n, None) for n in range(100)))
        assert sum(isinstance(answer, int) for answer in result) == 1

        async def count() -> None:
            while True:
                cell = await bucket.kv.get("n")
                value = int(cell.value or b"") if cell else 0
                answer = await bucket.kv.cas("n", b"%d" % (value + 1), cell.revision if cell else None)
                if isinstance(answer, int):
                    return

        await asyncio.gather(*(count() for _ in range(50)))
        cell = await bucket.kv.get("n")
        assert cell is not None
        assert cell.value == b"50"

    use(scenario)


def test_closed_bucket_raises_bucket_closed(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        await bucket.aclose()
        for asked in (bucket.kv.get("a"), bucket.kv.cas("a", b"", None), bucket.kv.list("")):
            with pytest.raises(BucketClosed):
                await asked
        with pytest.raises(BucketClosed):
            await put(bucket.blobs, b"late")
        await bucket.aclose()

    use(scenario)


@pytest.mark.parametrize(
    "key", ["", "a\0b", "a\nb", "\ud800", "\U0010ffff", "k" * (MAX_NAME_LENGTH + 1)], ids=ascii
)
def test_invalid_name_raises_bad_name(use: Use, key: str) -> None:
    async def scenario(bucket: Bucket) -> None:
        for call in (bucket.kv.get(key), bucket.kv.cas(key, b"", None)):
            with pytest.raises(BadName):
                await call

    use(scenario)


def test_longest_key_is_set_listed_and_removed(use: Use) -> None:
    key = "\U00010000" * MAX_NAME_LENGTH

    async def scenario(bucket: Bucket) -> None:
        revision = await bucket.kv.cas(key, b"value", None)
        assert isinstance(revision, int)
        assert await bucket.kv.get(key) == VersionedValue(key, b"value", revision)
        assert await bucket.kv.list(key) == [VersionedValue(key, b"value", revision)]
        assert isinstance(await bucket.kv.cas(key, None, revision), int)
        assert await bucket.kv.list("") == []

    use(scenario)


def test_value_above_limit_raises_too_large(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        assert isinstance(await bucket.kv.cas("a", bytes(MAX_VALUE_BYTES), None), int)
        with pytest.raises(TooLarge):
            await bucket.kv.cas("b", bytes(MAX_VALUE_BYTES + 1), None)

    use(scenario)
