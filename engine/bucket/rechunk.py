"""Chunks of any size as pieces worth a step on a thread. Owns no more than that."""

from collections.abc import AsyncGenerator, AsyncIterable

PIECE_BYTES = 256 * 1024


async def rechunk(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield pieces of at least `GATHERED` bytes, the last but for that; what came before an error too."""
    waiting: list[bytes] = []
    size = 0
    failure: Exception | None = None
    try:
        async for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if size >= PIECE_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
    except Exception as error:
        failure = error
    if waiting:
        yield b"".join(waiting)
    if failure is not None:
        raise failure
