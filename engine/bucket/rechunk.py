"""Combines small chunks into pieces large enough for a thread hop."""

from collections.abc import AsyncGenerator, AsyncIterable

PIECE_BYTES = 256 * 1024


async def rechunk(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield pieces of at least `PIECE_BYTES`, except the last. Data before an error is yielded too."""
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
