"""Response bodies that a thread produces, with backpressure: at most a few chunks are buffered."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

_AHEAD = 4
_PIECE = 64 << 10

Made = Callable[["ChunkWriter"], None]


class StreamClosed(Exception):
    """The client has disconnected."""


class ChunkWriter(io.RawIOBase):
    """The output of the thread. `write` waits for the client, and raises `ClientDisconnected`."""

    def __init__(self, stream: "Stream") -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Send a chunk and return its length."""
        self._stream.put(bytes(data))
        return len(data)

    def check(self) -> None:
        """Raise `ClientDisconnected` if the client has disconnected."""
        self._stream.check()

    def gathered(self) -> io.BufferedWriter:
        """Return a buffered writer, which must be flushed at the end."""
        return io.BufferedWriter(self, _PIECE)


class Stream:
    """The output of a function that runs on its own thread."""

    def __init__(self, make: Made) -> None:
        """`make` writes into its argument, and may raise."""
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
        self._gone = False
        self._first = b""
        self._making: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Start, and wait for the first chunk. Raises the function's error before that chunk."""
        made: Future[None] = Future()
        self._making = asyncio.wrap_future(made)
        # A thread of its own: it may take as long as the client at the other end does.
        threading.Thread(target=self._work, args=(made,), name="tables-stream", daemon=True).start()
        try:
            self._first = await self._next() or b""
        except BaseException:
            await self._end()
            raise

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all chunks. Raises the function's error. Close the generator on disconnect."""
        try:
            piece: bytes | None = self._first
            while piece:
                yield piece
                piece = await self._next()
        finally:
            await self._end()

    def put(self, piece: bytes) -> None:
        """Send a chunk, from the thread."""
        self.check()
        if piece:
            asyncio.run_coroutine_threadsafe(self._pieces.put(piece), self._loop).result()

    def check(self) -> None:
        """Raise `ClientDisconnected` if the client has disconnected."""
        if self._gone:
            raise StreamClosed

    def _work(self, made: "Future[None]") -> None:
        try:
            self._make(ChunkWriter(self))
        except StreamClosed:
            made.set_result(None)
        except BaseException as error:
            made.set_exception(error)
        else:
            made.set_result(None)

    async def _next(self) -> bytes | None:
        """Return the next chunk, or None at the end."""
        assert self._making is not None
        if self._pieces.empty() and not self._making.done():
            getting = asyncio.ensure_future(self._pieces.get())
            waited: set[asyncio.Future[Any]] = {getting, self._making}
            try:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            except BaseException:
                getting.cancel()
                raise
            if getting.done():
                return getting.result()
            getting.cancel()
        if not self._pieces.empty():
            return self._pieces.get_nowait()
        self._making.result()
        return None

    async def _end(self) -> None:
        """Stop the thread at its next chunk, and wait for it."""
        self._gone = True
        assert self._making is not None
        while not self._making.done():
            while not self._pieces.empty():
                self._pieces.get_nowait()
            await asyncio.wait({self._making}, timeout=0.05)
        if not self._making.cancelled():
            self._making.exception()
