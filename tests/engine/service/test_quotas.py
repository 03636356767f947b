import asyncio
import json
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import StaleRevision
from engine.errors import SvcError
from engine.quota import NO_QUOTA, Quota
from engine.service.quotas import KEY_PREFIX, QuotaStore


def test_concurrent_changes_of_a_quota_are_all_stored(tmp_path: Path) -> None:
    async def main() -> None:
        bucket = FolderBucket(tmp_path / "bucket")
        store = QuotaStore(bucket.kv)
        limits = {"instances": 1, "memory_mb": 2, "requests": 3, "storage_mb": 4, "egress": 5}
        await asyncio.gather(*[store.change("shop", {name: limit}) for name, limit in limits.items()])
        assert await store.get("shop") == Quota(**limits)
        assert await store.get("other") == NO_QUOTA
        assert await store.change("shop", dict.fromkeys(limits)) == NO_QUOTA
        assert await bucket.kv.list(KEY_PREFIX) == []
        await bucket.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("stored", "quota"),
    [
        (b'{"requests": 3, "gpus": 1}', Quota(requests=3)),  # A newer svc knows more limits.
        (b'{"requests": "3"}', None),
        (b'{"requests": 0}', None),
        (b'{"requests": true}', None),
        (b"[]", None),
        (b"{", None),
        (b"\xff", None),
        (json.dumps({"requests": 1.5}).encode(), None),
    ],
)
def test_corrupt_quota_raises(tmp_path: Path, stored: bytes, quota: Quota | None) -> None:
    async def main() -> Quota:
        bucket = FolderBucket(tmp_path / "bucket")
        try:
            assert not isinstance(await bucket.kv.cas(f"{KEY_PREFIX}shop", stored, None), StaleRevision)
            return await QuotaStore(bucket.kv).get("shop")
        finally:
            await bucket.aclose()

    if quota is not None:
        assert asyncio.run(main()) == quota
    else:
        with pytest.raises(SvcError, match="the stored quota of shop is corrupt"):
            asyncio.run(main())
