"""The move of a service's bucket from its folder to the fleet, while it serves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from engine.bucket.copy import CopyReport, copy_blobs, copy_bucket
from engine.bucket.errors import BucketError
from engine.bucket.protocols import Bucket
from engine.bucket.switch import SwitchableBucket
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.connection import ClusterAddress
from engine.fleet.registry import PREFIX

RETRY_SECONDS = 2.0
REVISION_GAP = 10**9
"""Revisions of the fleet begin so far above those of the folder that none is used twice."""
UseCluster = Callable[[JetStreamBucket], Awaitable[None]]
_log = logging.getLogger("svc.fleet")


async def move_bucket(
    switch: SwitchableBucket,
    address: ClusterAddress,
    namespace: str,
    *,
    on_frozen: Callable[[], None],
    carry: UseCluster,
    hand_over: Callable[[Bucket, JetStreamBucket], Awaitable[None]],
) -> tuple[JetStreamBucket, CopyReport]:
    """Copy a bucket to a cluster, and use it there; return it. After a `BucketError` nothing has changed.

    Changes wait during the last part, which begins with `on_frozen`. Then `carry` copies what the bucket
    does not contain. `hand_over` lets other nodes use the copy; it is repeated after a `BucketError`, because
    they may use it already.
    """
    source = switch.current
    marker = await source.kv.get(PREFIX + "revision")
    revision = await source.kv.cas(PREFIX + "revision", b"", marker.revision if marker else None)
    assert isinstance(revision, int)
    target = await JetStreamBucket.open(address, namespace, first_revision=revision + REVISION_GAP)
    try:
        await copy_blobs(source, target, CopyReport())
        async with switch.frozen():
            on_frozen()
            report = await copy_bucket(source, target, skip=PREFIX, overwrite=True)
            await carry(target)
            while True:
                try:
                    await hand_over(source, target)
                    break
                except BucketError as error:
                    _log.warning("changes wait until the fleet answers: %s", error.message)
                    await asyncio.sleep(RETRY_SECONDS)
            switch.current = target
    except BaseException:
        await target.aclose()
        raise
    return target, report
