"""What no deployment needs any more, removed from a bucket. Owns the judgement.

A deploy in progress has blobs that no record names yet. Each was put, or found and kept, not long ago; so
what was used within the grace stays, and the grace must be longer than a deploy takes.
"""

from dataclasses import dataclass

from engine.bucket.protocols import Bucket, Digest
from engine.deploy import store
from engine.deploy.history import History
from engine.errors import SvcError

GRACE_NS = 24 * 3600 * 10**9


class GarbageError(SvcError):
    """What is garbage can not be told."""

    code = "garbage"


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed: blobs and their bytes, and uploads that nobody went on with."""

    blobs: int
    size: int
    uploads: int


async def sweep(bucket: Bucket, now_ns: int, grace_ns: int = GRACE_NS) -> Swept:
    """Remove what no deployment needs and nobody used within the grace. Times are Unix epoch, ns.

    Raises `GarbageError`, having removed nothing, when it can not be told what a deployment needs.
    """
    needed = await _needed(bucket)
    before = now_ns - grace_ns
    blobs = size = 0
    async for blob in bucket.blobs.list():
        unused = blob.digest not in needed and blob.used_ns < before
        if unused and await bucket.blobs.delete(blob.digest, before):
            blobs += 1
            size += blob.size
    return Swept(blobs, size, await bucket.blobs.forget_uploads(before))


async def _needed(bucket: Bucket) -> set[Digest]:
    needed: set[Digest] = set()
    for deployment in await History(bucket).all():
        for part in deployment.resources.values():
            if part.package in needed:
                continue
            try:
                needed |= (await store.load(bucket.blobs, part.package)).digests | {part.package}
            except SvcError as error:
                raise GarbageError(
                    f"nothing was removed, because what deployment {deployment.id} of {deployment.project}"
                    f" needs is not known: {error.message}",
                    f"Deploy {deployment.project} again from the same sources.",
                ) from error
    return needed
