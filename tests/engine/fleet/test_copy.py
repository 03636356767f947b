"""Copies between a folder and a cluster."""

from pathlib import Path

import pytest

from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket
from tests.support.blobs import put
from tests.support.buckets import Use


class Interrupted(Exception): ...


async def contents(bucket: Bucket) -> tuple[dict[str, bytes], dict[str, bytes]]:
    values = {value.key: value.value for value in await bucket.kv.list("")}
    blobs = {info.digest: await bucket.blobs.get(info.digest) async for info in bucket.blobs.list()}
    return values, {str(digest): content for digest, content in blobs.items()}


async def copy_with_interruption(source: Bucket, target: Bucket) -> None:
    """Copy until a few blobs are stored, and again."""

    def interrupt(report: CopyReport) -> None:
        if report.blobs == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        await copy_bucket(source, target, interrupt)
    assert await target.kv.list("") == []
    report = await copy_bucket(source, target, lambda report: None)
    assert report.skipped >= 3
    assert await contents(target) == await contents(source)


def test_interrupted_copy_can_be_repeated_in_both_directions(use: Use, tmp_path: Path) -> None:
    async def scenario(cluster: Bucket) -> None:
        source, target = FolderBucket(tmp_path / "source"), FolderBucket(tmp_path / "target")
        try:
            for number in range(20):
                await put(source.blobs, b"%d" % number * 300_000)
                await source.kv.cas(f"deployments/ü/{number}", b"%d" % number, None)
            removed = await source.kv.cas("removed", b"value", None)
            assert isinstance(removed, int)
            await source.kv.cas("removed", None, removed)
            await copy_with_interruption(source, cluster)
            await copy_with_interruption(cluster, target)
            assert await contents(source) == await contents(target)
        finally:
            await source.aclose()
            await target.aclose()

    use(scenario)
