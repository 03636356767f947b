"""Bounds of buffered bytes: parts of responses that wait for their clients, and of request bodies that wait
for their application.

They are counted for each connection, client address and project. While one of these exceeds its limit, its
bodies buffer `SMALL_PART_BYTES` each: clients and applications that read are served, and those that do not
hold little.
"""

from collections.abc import Iterable
from weakref import WeakValueDictionary

CONNECTION_BYTES = 1 << 20
"""Limit of the streams of an HTTP/2 connection, and its flow-control window."""
ADDRESS_BYTES = 16 << 20
"""Limit of the connections of a client address."""
PROJECT_BYTES = 64 << 20
"""Limit of the responses of a project, and of the request bodies."""
SMALL_PART_BYTES = 4 << 10
"""Size of the parts of a body, and of all that it may buffer, while a limit is exceeded."""


class BufferedBytes:
    """The bytes that are buffered for a connection, an address or a project; `limit` is in bytes."""

    __slots__ = ("__weakref__", "limit", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0

    @property
    def exceeded(self) -> bool:
        return self.size > self.limit


class ResponseBytes:
    """The unsent bytes of one response: `buffered`, and `allotted`: read but not yet buffered."""

    __slots__ = ("_allotted", "_buffered", "_counts")

    def __init__(self, counts: Iterable[BufferedBytes] = ()) -> None:
        self._counts = tuple(counts)
        self._buffered = self._allotted = 0

    @property
    def crowded(self) -> bool:
        return any(count.exceeded for count in self._counts)

    def set_buffered(self, size: int) -> None:
        """Count the bytes that are buffered now."""
        self._add(size - self._buffered)
        self._buffered = size

    def read_ahead(self, size: int) -> int:
        """Return how many of these bytes may be read ahead of the client, and count them."""
        size = min(size, SMALL_PART_BYTES) if self.crowded else size
        self._allotted += size
        self._add(size)
        return size

    def release(self, size: int) -> None:
        """Subtract bytes that were read ahead: they are buffered or dropped."""
        size = min(size, self._allotted)
        self._allotted -= size
        self._add(-size)

    def close(self) -> None:
        """Subtract all bytes at the end of the response."""
        self.release(self._allotted)
        self.set_buffered(0)

    def _add(self, size: int) -> None:
        for count in self._counts:
            count.size += size


class BufferedCounts:
    """The counts of a server, created on use and dropped with their last connection or response."""

    def __init__(self) -> None:
        self._addresses = WeakValueDictionary[str, BufferedBytes]()
        self._projects = WeakValueDictionary[str, BufferedBytes]()

    def for_address(self, key: str) -> BufferedBytes:
        """Return the count of a client address, by the key of the connection limits."""
        return _get(self._addresses, key, ADDRESS_BYTES)

    def for_project(self, name: str) -> BufferedBytes:
        return _get(self._projects, name, PROJECT_BYTES)


def _get(counts: WeakValueDictionary[str, BufferedBytes], key: str, limit: int) -> BufferedBytes:
    count = counts.get(key)
    if count is None:
        counts[key] = count = BufferedBytes(limit)
    return count
