"""Copies between buckets, on folders."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BucketError
from engine.deploy.gc import Finding, verify_bucket
from tests.support.blobs import put


def ignore(report: CopyReport) -> None: ...


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[tuple[FolderBucket, FolderBucket]]:
    source, target = FolderBucket(folder / "source"), FolderBucket(folder / "target")
    try:
        yield source, target
    finally:
        await source.aclose()
        await target.aclose()


def test_copy_resumes_partial_uploads_and_skips_present_blobs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (source, target):
            contents = [b"%d" % number * 400_000 for number in range(9)]
            digests = [await put(source.blobs, content) for content in contents]
            for key in ("live/a", "accounts"):
                await source.kv.cas(key, key.encode(), None)
            await target.kv.cas("accounts", b"accounts", None)
            await put(target.blobs, contents[0])

            async def half() -> AsyncIterator[bytes]:
                yield contents[1][:300_000]

            assert await target.blobs.upload(digests[1], 400_000, 0, half()) == 300_000
            shown: list[int] = []
            report = await copy_bucket(source, target, lambda report: shown.append(report.blobs))
            assert report == CopyReport(values=2, blobs=9, skipped=1, size=9 * 400_000)
            assert shown == list(range(1, 10))
            assert [await target.blobs.get(digest) for digest in digests] == contents
            assert [value.value for value in await target.kv.list("")] == [b"accounts", b"live/a"]

    asyncio.run(scenario())


@pytest.mark.parametrize("key", ["accounts", "other"])
def test_copy_into_bucket_with_other_values_is_refused(tmp_path: Path, key: str) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (source, target):
            await source.kv.cas("accounts", b"one", None)
            await target.kv.cas(key, b"two", None)
            with pytest.raises(BucketError, match=f"not empty: it has another value of {key}"):
                await copy_bucket(source, target, ignore)
            assert [value.value for value in await target.kv.list("")] == [b"two"]

    asyncio.run(scenario())


def test_verify_counts_blobs_and_returns_corrupt_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (source, _):
            await put(source.blobs, b"one")
            digest = await put(source.blobs, b"two")
            path = tmp_path / "source" / "blobs" / digest
            path.chmod(0o644)
            path.write_bytes(b"bad")
            report, findings = await verify_bucket(source, ignore)
            assert (report.blobs, findings) == (1, [Finding("corrupt", f"blob sha256:{digest}")])

    asyncio.run(scenario())
