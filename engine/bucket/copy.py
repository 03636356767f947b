"""Copies of buckets: any backend to any other, through the protocols alone.

Values are listed before blobs are copied and written after them. So the copy has every blob that its values
name, and an interrupted copy can be repeated.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass

from engine.bucket.protocols import BlobInfo, BlobMissing, Bucket, BucketError, Digest, StaleRevision
from engine.cancellation import run_all

PARALLEL_BLOBS = 8
PARALLEL_VALUES = 64
FLEET_PREFIX = "fleet/"
"""Keys that begin with it are those of the fleet that a service becomes. They are not copied."""


@dataclass(slots=True)
class CopyReport:
    """Counts of a copy or a check. `skipped` blobs were in the target before.

    `tables` is the number of projects whose tables were copied.
    """

    values: int = 0
    tables: int = 0
    blobs: int = 0
    skipped: int = 0
    size: int = 0


async def copy_bucket(
    source: Bucket, target: Bucket, progress: Callable[[CopyReport], None], *, overwrite: bool = False
) -> CopyReport:
    """Copy all values and blobs to a bucket that is empty or has parts of the same copy; then compare both.

    `progress` is called after each blob. Raises `BucketError` for a target with other values; with
    `overwrite`, it replaces and removes them.
    """
    report = CopyReport()
    values = await _values(source)
    present = {value.key: value for value in await target.kv.list("")}
    for key, value in present.items():
        if not overwrite and values.get(key) != value.value:
            hint = "Use an empty bucket."
            raise BucketError(f"the target bucket is not empty: it has another value of {key}", hint)
    infos = await _copy_blobs(source, target, report, progress)
    changed = [key for key in values if key not in present or present[key].value != values[key]]
    changed += [key for key in present if key not in values]

    async def write(key: str) -> None:
        revision = present[key].revision if key in present else None
        if isinstance(await target.kv.cas(key, values.get(key), revision), StaleRevision):
            hint = "Stop the service that uses it, then repeat the copy."
            raise BucketError(f"the target bucket changed during the copy: {key}", hint)

    await run_all(write, changed, PARALLEL_VALUES)
    report.values = len(values)
    digests = {info.digest async for info in target.blobs.list()}
    if await _values(target) != values or not digests.issuperset(info.digest for info in infos):
        raise BucketError("the copy differs from its source", "Repeat the copy while no service uses either.")
    return report


async def _values(bucket: Bucket) -> dict[str, bytes]:
    values = await bucket.kv.list("")
    return {value.key: value.value for value in values if not value.key.startswith(FLEET_PREFIX)}


async def _copy_blobs(
    source: Bucket, target: Bucket, report: CopyReport, progress: Callable[[CopyReport], None]
) -> list[BlobInfo]:
    """Copy the blobs that the target lacks; return all of the source. Raises `BucketError`."""
    have = {info.digest async for info in target.blobs.list()}
    infos = [info async for info in source.blobs.list()]

    async def copy(info: BlobInfo) -> None:
        if info.digest in have:
            report.skipped += 1
        else:
            with suppress(BlobMissing):  # It was deleted meanwhile.
                offset = await target.blobs.received(info.digest)
                chunks = _skip(source, info.digest, offset)
                if await target.blobs.upload(info.digest, info.size, offset, chunks) != info.size:
                    raise BucketError(f"blob sha256:{info.digest} was stored in part", "Repeat the copy.")
        report.blobs += 1
        report.size += info.size
        progress(report)

    await run_all(copy, infos, PARALLEL_BLOBS)
    return infos


async def _skip(source: Bucket, digest: Digest, skipped: int) -> AsyncGenerator[bytes, None]:
    async for chunk in source.blobs.read(digest):
        if skipped < len(chunk):
            yield chunk[skipped:]
        skipped = max(0, skipped - len(chunk))
