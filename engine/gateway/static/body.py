"""Response bodies of files: a cache of small ones, and streams of large ones.

Exactly the announced bytes are sent, or `FileChanged` is raised so that the response is aborted.
"""

import asyncio
import os
from collections import OrderedDict

from engine.gateway.static.source import Representation, file_stamp, open_file
from engine.http.exchange import Exchange

PIECE_BYTES = 64 * 1024
# A hop to a thread costs about as much as reading 64 KiB from the page cache, so each reads several pieces.
_READ_BYTES = 16 * PIECE_BYTES


class FileChanged(Exception):
    """A file was truncated or written while it was sent; the response is incomplete."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was being sent")


class BodyCache:
    """A cache of the contents of small files that never change; the least recently used are evicted first."""

    def __init__(self, largest: int, total: int) -> None:
        """Cache files of up to `largest` bytes, up to `total` bytes together."""
        self._largest = largest
        self._free = total
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, representation: Representation) -> bytes | None:
        """Return the content, or `None` if it has to be streamed. Raises `OSError` and `FileChanged`."""
        if representation.body is not None:
            return representation.body
        if representation.stamp is not None or representation.size > self._largest:
            return None
        path = representation.path
        body = self._bodies.get(path)
        if body is not None:
            self._bodies.move_to_end(path)
            return body
        with open_file(path) as file:
            body = file.read(representation.size + 1)
        if len(body) != representation.size:
            raise FileChanged(path)
        self._bodies[path] = body
        self._free -= len(body)
        while self._free < 0:
            self._free += len(self._bodies.popitem(last=False)[1])
        return body


class FileStream:
    """A large file, opened before the head is sent so that its length is still true."""

    def __init__(self, representation: Representation) -> None:
        """Open the file. Raises `OSError` if it is missing, `FileChanged` if it was replaced."""
        self._path = representation.path
        self._stamp = representation.stamp
        self._file = open_file(self._path)
        self.close = self._file.close
        if self._changed() or os.fstat(self._file.fileno()).st_size != representation.size:
            self.close()
            raise FileChanged(self._path)

    def _changed(self) -> bool:
        # Only the size and the time of the last write: the rest also changes when the name is removed.
        return self._stamp is not None and file_stamp(os.fstat(self._file.fileno()))[2:4] != self._stamp[2:4]

    async def send(self, start: int, stop: int, exchange: Exchange) -> int:
        """Send the bytes from `start` up to `stop` and end the response; return how many were sent.

        Stops early when the client disconnects. Raises `FileChanged`.
        """
        offset, unsent = start, exchange.unsent
        try:
            while offset < stop:
                size = unsent.read_ahead(min(_READ_BYTES, stop - offset))
                block = await asyncio.to_thread(os.pread, self._file.fileno(), size, offset)
                if not block or self._changed():
                    raise FileChanged(self._path)
                for begin in range(0, len(block), PIECE_BYTES):
                    if exchange.disconnected.is_set():
                        return offset - start
                    piece = block[begin : begin + PIECE_BYTES]
                    offset += len(piece)
                    await exchange.send_body(piece, end=offset == stop)
                unsent.release(size)
        finally:
            unsent.release(_READ_BYTES)
        return offset - start
