"""Blobs of a bucket, stored and looked up as tests need it."""

from collections.abc import AsyncGenerator, AsyncIterable
from hashlib import sha256

from engine.bucket.protocols import Blobs, Digest


async def put(blobs: Blobs, content: bytes, chunks: AsyncIterable[bytes] | None = None) -> Digest:
    """Upload a blob, in these chunks if given, and return its digest."""
    digest = Digest(sha256(content).hexdigest())
    assert await blobs.upload(digest, len(content), 0, chunks or one(content)) == len(content)
    return digest


async def one(content: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the content as one chunk."""
    yield content


async def exists(blobs: Blobs, digest: str) -> bool:
    """Return whether the bucket lists the blob."""
    return digest in {info.digest async for info in blobs.list()}
