"""Bytes that wait, in the parts in which they came."""

from collections import deque


class Parts:
    """Parts go in at the end; out at the front come pieces of them. `size` is how many bytes wait."""

    __slots__ = ("_begin", "_parts", "size")

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._begin = 0  # of what is left of the first part
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, data: bytes) -> None:
        """Add a part."""
        self._parts.append(data)
        self.size += len(data)

    def take(self, most: int = -1) -> bytes:
        """Return what is left of the first part, at most `most` bytes of it unless that is below 0."""
        part, begin = self._parts[0], self._begin
        if 0 <= most < len(part) - begin:
            self._begin = begin + most
            data = part[begin : self._begin]
        else:
            self._parts.popleft()
            self._begin = 0
            data = part[begin:]
        self.size -= len(data)
        return data

    def put_back(self, data: bytes) -> None:
        """Have these bytes come out next."""
        if self._begin:
            self._parts[0] = self._parts[0][self._begin :]
            self._begin = 0
        self._parts.appendleft(data)
        self.size += len(data)

    def clear(self) -> None:
        """Let go of everything."""
        self._parts.clear()
        self.size = self._begin = 0
