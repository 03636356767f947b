"""Exclusive use of a bucket by one service, as a key that its holder renews.

No clocks are compared. A lease has expired when its revision did not change for `EXPIRES_SECONDS` of the
observer's own clock.
"""

import asyncio
import json
import secrets
from collections.abc import Callable
from contextlib import suppress

from engine.bucket.errors import BucketError, BucketInUse
from engine.bucket.protocols import KeyValue, StaleRevision
from engine.fleet.errors import Unavailable

KEY = "service"
RENEW_SECONDS = 1.0
EXPIRES_SECONDS = 5.0
POLL_SECONDS = 0.5
RELEASE_SECONDS = 2.0


class Lease:
    """A held lease. `renew` prevents its expiry."""

    def __init__(self, kv: KeyValue, content: bytes, revision: int) -> None:
        self._kv, self._content, self._revision = kv, content, revision

    @classmethod
    async def acquire(cls, kv: KeyValue, holder: str) -> "Lease":
        """Acquire the lease; wait for an old one to expire. Raises `BucketInUse` and `Unavailable`."""
        content = json.dumps({"holder": holder, "id": secrets.token_hex(8)}).encode()
        value = await kv.get(KEY)
        if value is not None:
            loop = asyncio.get_running_loop()
            expires = loop.time() + EXPIRES_SECONDS
            while loop.time() < expires:
                await asyncio.sleep(POLL_SECONDS)
                now = await kv.get(KEY)
                if now is None:
                    value = None
                    break
                if now.revision != value.revision:
                    raise _in_use(now.value)
        revision = await kv.cas(KEY, content, value.revision if value is not None else None)
        if isinstance(revision, StaleRevision):
            now = await kv.get(KEY)
            raise _in_use(now.value if now is not None else b"{}")
        return cls(kv, content, revision)

    async def renew(self, on_lost: Callable[[BucketError], None]) -> None:
        """Renew the lease until canceled. Calls `on_lost` once if another service has taken it."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                renewed = await self._kv.cas(KEY, self._content, self._revision)
            except Unavailable:  # Without a majority no other service can take it.
                continue
            if isinstance(renewed, int):
                self._revision = renewed
                continue
            now = await self._kv.get(KEY)
            if now is not None and now.value == self._content:  # A renewal landed whose answer was lost.
                self._revision = now.revision
                continue
            on_lost(_in_use(now.value if now is not None else b"{}"))
            return

    async def release(self) -> None:
        """Release the lease, so that the next service need not wait."""
        with suppress(BucketError, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                # A renewal that was canceled may have been stored.
                value = await self._kv.get(KEY)
                if value is not None and value.value == self._content:
                    await self._kv.cas(KEY, None, value.revision)


def _in_use(content: bytes) -> BucketInUse:
    holder = json.loads(content).get("holder", "another service")
    return BucketInUse(
        f"the bucket is in use by {holder}",
        "Stop that service first, or name another bucket: nats://HOST/NAME",
    )
