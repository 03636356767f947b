"""A FIFO queue of bytes that preserves the parts in which they were added."""

from collections import deque


class ByteQueue:
    """A queue of bytes; `size` is how many it holds."""

    __slots__ = ("_begin", "_parts", "size")

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._begin = 0  # Offset of the unread rest of the first part.
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def append(self, data: bytes) -> None:
        """Add a part at the end."""
        self._parts.append(data)
        self.size += len(data)

    def read(self, limit: int = -1) -> bytes:
        """Return the rest of the first part; at most `limit` bytes of it unless that is negative."""
        part, begin = self._parts[0], self._begin
        if 0 <= limit < len(part) - begin:
            self._begin = begin + limit
            data = part[begin : self._begin]
        else:
            self._parts.popleft()
            self._begin = 0
            data = part[begin:]
        self.size -= len(data)
        return data

    def clear(self) -> None:
        """Discard everything."""
        self._parts.clear()
        self.size = self._begin = 0
