"""Blobs of a bucket, stored and looked up as tests need it."""

from collections.abc import AsyncGenerator, AsyncIterable
from hashlib import sha256
from pathlib import Path

from engine.bucket.blobs import Blobs
from engine.bucket.protocols import Digest


async def put(blobs: Blobs, content: bytes | Path, chunks: AsyncIterable[bytes] | None = None) -> Digest:
    """Upload bytes or a file, in these chunks if given, and return the digest. Resume a partial upload."""
    if isinstance(content, Path):
        content = content.read_bytes()
    digest = Digest(sha256(content).hexdigest())
    received = await blobs.received(digest)
    rest = one(content[received:]) if received or chunks is None else chunks
    assert await blobs.upload(digest, len(content), received, rest) == len(content)
    return digest


async def one(content: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the content as one chunk."""
    yield content


async def exists(blobs: Blobs, digest: str) -> bool:
    """Return whether the bucket lists the blob."""
    return digest in {info.digest async for info in blobs.list()}
