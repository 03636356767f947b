"""Sending the bytes of a file: small ones from memory, large ones in pieces without holding them.

Owns the response body's framing promise: exactly the announced bytes leave, or `FileChanged` is raised so
that the connection is cut. It decides no status and no header.
"""

import asyncio
import os
from collections import OrderedDict

from engine.gateway.static.file import Representation
from engine.gateway.static.source import open_file, read_up_to, stamp_of
from engine.wasm.execution.request import Receive, Send

PIECE = 64 * 1024
# One hop to a thread costs about as much as reading 64 KiB that the kernel holds; so several at once.
_READ = 16 * PIECE


class FileChanged(Exception):
    """A file was cut short or written while it was being sent; what has left is no whole response."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} changed while it was being sent")


class SmallBodies:
    """The contents of small files that never change, the least recently used dropped first."""

    def __init__(self, largest: int, most: int) -> None:
        """Keep files of up to `largest` bytes, up to `most` bytes in all."""
        self._largest = largest
        self._left = most
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def of(self, representation: Representation) -> bytes | None:
        """Return the whole content, `None` when it is to be streamed. Raises OSError, FileChanged."""
        if representation.body is not None:
            return representation.body
        if representation.stamp is not None or representation.size > self._largest:
            return None
        place = representation.place
        body = self._bodies.get(place)
        if body is not None:
            self._bodies.move_to_end(place)
            return body
        body = read_up_to(place, representation.size + 1)
        if len(body) != representation.size:
            raise FileChanged(place)
        self._bodies[place] = body
        self._left -= len(body)
        while self._left < 0:
            self._left += len(self._bodies.popitem(last=False)[1])
        return body


class Streamed:
    """A large file, opened before the head is sent so that what is announced can be kept."""

    def __init__(self, representation: Representation) -> None:
        """Open the file. Raises OSError when it is gone, `FileChanged` when it is another by now."""
        self._place = representation.place
        self._stamp = representation.stamp
        self._descriptor = open_file(self._place)
        status = os.fstat(self._descriptor)
        if self._changed() or status.st_size != representation.size:
            os.close(self._descriptor)
            raise FileChanged(self._place)

    def _changed(self) -> bool:
        # Size and time of the last write only: the rest also moves when the name is removed.
        return self._stamp is not None and stamp_of(os.fstat(self._descriptor))[2:4] != self._stamp[2:4]

    async def send(self, start: int, stop: int, send: Send, receive: Receive | None) -> int:
        """Send the bytes from `start` up to `stop` and end the response; return how many left.

        Stops early when `receive` (if given) tells that the client is gone. Raises `FileChanged`.
        """
        gone = asyncio.ensure_future(_disconnected(receive)) if receive is not None else None
        at = start
        try:
            while at < stop:
                block = await asyncio.to_thread(os.pread, self._descriptor, min(_READ, stop - at), at)
                if not block or self._changed():
                    raise FileChanged(self._place)
                for begin in range(0, len(block), PIECE):
                    if gone is not None and gone.done():
                        return at - start
                    piece = block[begin : begin + PIECE]
                    at += len(piece)
                    await send({"type": "http.response.body", "body": piece, "more_body": at < stop})
            return at - start
        finally:
            if gone is not None:
                gone.cancel()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
