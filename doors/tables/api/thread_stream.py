"""Response bodies that a thread produces, with backpressure: at most a few chunks are buffered."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

_BUFFERED_CHUNKS = 4
_CHUNK_BYTES = 64 << 10

Producer = Callable[["ChunkWriter"], None]


class StreamDisconnected(Exception):
    """The client has disconnected."""


class ChunkWriter(io.RawIOBase):
    """The output of the thread. `write` waits for the client, and raises `StreamDisconnected`."""

    def __init__(self, stream: "Stream") -> None:
        super().__init__()
        self._stream = stream
        self._discards = False

    def discard(self) -> None:
        """Ignore further chunks."""
        self._discards = True

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Send a chunk and return its length."""
        if not self._discards:
            self._stream.put(bytes(data))
        return len(data)

    @property
    def disconnected(self) -> bool:
        """True once the client has disconnected."""
        return self._stream.disconnected

    def check(self) -> None:
        """Raise `StreamDisconnected` if the client has disconnected."""
        self._stream.check()

    def buffered(self) -> io.BufferedWriter:
        """Return a buffered writer, which must be flushed at the end."""
        return io.BufferedWriter(self, _CHUNK_BYTES)


class Stream:
    """The output of a function that runs on its own thread."""

    def __init__(self, produce: Producer, on_end: Callable[[], None]) -> None:
        """`produce` writes to its argument, and may raise. `on_end` is called on the event loop after it."""
        self._produce = produce
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_BUFFERED_CHUNKS)
        self.disconnected = False
        self._first = b""
        self._finished: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start, and wait for the first chunk. Raises the function's error before that chunk."""
        result: Future[None] = Future()
        self._finished = asyncio.wrap_future(result)
        self._finished.add_done_callback(lambda _: self._on_end())
        # Its own thread: it takes as long as the client takes to read.
        threading.Thread(target=self._run, args=(result,), name="tables-stream", daemon=True).start()
        try:
            self._first = await self._next() or b""
        except BaseException:
            await self._stop()
            raise

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield all chunks. Raises the function's error. Close the generator on disconnect."""
        try:
            chunk: bytes | None = self._first
            while chunk:
                yield chunk
                chunk = await self._next()
        finally:
            await self._stop()

    def put(self, chunk: bytes) -> None:
        """Send a chunk, from the thread."""
        self.check()
        if chunk:
            asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()

    def check(self) -> None:
        """Raise `StreamDisconnected` if the client has disconnected."""
        if self.disconnected:
            raise StreamDisconnected

    def _run(self, result: "Future[None]") -> None:
        try:
            self._produce(ChunkWriter(self))
        except StreamDisconnected:
            result.set_result(None)
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(None)

    async def _next(self) -> bytes | None:
        """Return the next chunk, or None at the end."""
        assert self._finished is not None
        if self._chunks.empty() and not self._finished.done():
            next_chunk = asyncio.ensure_future(self._chunks.get())
            pending: set[asyncio.Future[Any]] = {next_chunk, self._finished}
            try:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            except BaseException:
                next_chunk.cancel()
                raise
            if next_chunk.done():
                return next_chunk.result()
            next_chunk.cancel()
        if not self._chunks.empty():
            return self._chunks.get_nowait()
        self._finished.result()
        return None

    async def _stop(self) -> None:
        """Stop the thread at its next chunk, and wait for it."""
        self.disconnected = True
        assert self._finished is not None
        while not self._finished.done():
            while not self._chunks.empty():
                self._chunks.get_nowait()
            await asyncio.wait({self._finished}, timeout=0.05)
        if not self._finished.cancelled():
            self._finished.exception()
