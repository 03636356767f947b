"""Bytes on their way into and out of a guest.

Owns the buffers between event loop and guest and nothing of WASI's own vocabulary. One side of each
buffer is the guest (host functions, possibly in a worker thread), the other the event loop; a buffer is a
deque whose single operations are atomic, so neither side locks.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from engine.http.byte_queue import Parts

BUFFER_BYTES = 262_144
"""Bytes that may wait in one buffer before its producer is held back: four calls of 64 KiB."""

MAX_LIST_BYTES = 4096
"""Most bytes that cross the boundary in one call as a `list<u8>`: larger ones cost more a byte."""


class MemoryAccount(Protocol):
    """Whoever counts bytes that are kept for a guest."""

    kept: int


class InputBuffer:
    """Bytes that the loop feeds and the guest takes; a `keeper` counts those that wait."""

    __slots__ = ("_account", "_parts", "discarding", "ended", "error", "on_drained")

    def __init__(self, *, ended: bool = False, account: MemoryAccount | None = None) -> None:
        self._account = account
        self._parts = Parts()
        self.ended = ended
        self.error: Any = None
        self.discarding = False
        self.on_drained: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        """Whether the loop should hold its source back."""
        return self._parts.size >= BUFFER_BYTES

    def feed(self, data: bytes) -> None:
        """Add bytes from the loop's side; dropped when the guest has let go of the stream."""
        if data and not self.discarding:
            self._parts.add(data)
            if self._account is not None:
                self._account.kept += len(data)

    def end(self, error: Any = None) -> None:
        """Say that no more bytes come, because of `error` (a wasi:http error-code) if given."""
        self.error = error
        self.ended = True

    def discard(self) -> None:
        """Let go of what is buffered and of all that is still to come."""
        self.discarding = True
        if self._account is not None:
            self._account.kept -= self._parts.size
        self._parts.clear()
        self._notify_drained()

    def take(self, most: int) -> bytes:
        """Return up to `most` bytes, or `b""` when there are none now."""
        if not self._parts:
            return b""
        data = self._parts.take(most)
        if self._account is not None:
            self._account.kept -= len(data)
        if not self.full:
            self._notify_drained()
        return data

    def _notify_drained(self) -> None:
        if self.on_drained is not None:
            self.on_drained()

    @property
    def exhausted(self) -> bool:
        """Whether every byte has been taken and no more come."""
        return self.ended and not self._parts

    def ready(self) -> bool:
        """Whether a read would return at once: bytes, the end, or an error."""
        return bool(self._parts) or self.ended


class OutputBuffer:
    """Bytes that the guest puts and the loop drains.

    `expected` is the announced length of the whole in bytes, if there is one, and `mismatch` the name of
    the error when it is another. `finished` says that the guest ended the body properly, `broken` that no
    more will be sent, and why.
    """

    __slots__ = ("_chunks", "_size", "broken", "expected", "finished", "mismatch", "on_change", "total")

    def __init__(self, expected: int | None = None, mismatch: str = "HTTP-response-body-size") -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.total = 0
        self.expected = expected
        self.mismatch = mismatch
        self.finished = False
        self.broken: Any = None
        self.on_change: Callable[[], None] | None = None

    def changed(self) -> None:
        """Tell whoever drains this that there is something new: bytes, or the end."""
        if self.on_change is not None:
            self.on_change()

    def room(self) -> int:
        """Return how many bytes the guest may put now."""
        return max(0, BUFFER_BYTES - self._size)

    def put(self, data: bytes) -> None:
        """Add bytes from the guest's side."""
        if data:
            self._chunks.append(data)
            self._size += len(data)
            self.total += len(data)
            self.changed()

    def drain(self) -> bytes:
        """Take everything that waits."""
        chunks = self._chunks
        if not chunks:
            return b""
        data = (
            chunks.popleft() if len(chunks) == 1 else b"".join(chunks.popleft() for _ in range(len(chunks)))
        )
        self._size -= len(data)
        return data

    def discard(self) -> None:
        """Throw away what waits to be drained, and what comes from now on."""
        self.on_change = self._forget
        self._forget()

    def _forget(self) -> None:
        self._chunks.clear()
        self._size = 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be drained."""
        return not self._chunks

    def ready(self) -> bool:
        """Whether a guest that waits to write may go on: room, or an end to hear of."""
        return self._size < BUFFER_BYTES or self.broken is not None


class LineSplitter:
    """What a guest prints, cut into lines.

    A line is at most 8 KiB, and each stream of a run has at most 1 MiB and 10,000 lines; what goes beyond is
    dropped, with one line that says so. Bytes that are not UTF-8 show as U+FFFD.
    """

    LINE = 8192
    TOTAL = 1 << 20
    COUNT = 10_000

    __slots__ = ("_partial", "_stream", "count", "queue", "total")

    def __init__(self, stream: str, queue: deque[tuple[str, str]]) -> None:
        self._stream = stream
        self._partial = bytearray()
        self.queue = queue
        self.total = 0
        self.count = 0

    def room(self) -> int:
        """Return how many bytes may be put now; printing never waits."""
        return BUFFER_BYTES

    def put(self, data: bytes) -> None:
        """Take printed bytes."""
        if self.total > self.TOTAL:
            return
        self.total += len(data)
        if self.total > self.TOTAL:
            self.finish()
            self._truncate("more than 1 MiB in one run")
            return
        partial = self._partial
        partial += data
        if b"\n" in data:
            *lines, rest = bytes(partial).split(b"\n")
            self._partial = bytearray(rest)
            for line in lines:
                self._emit(line)
        while len(self._partial) > self.LINE:
            self._emit(bytes(self._partial[: self.LINE]))
            del self._partial[: self.LINE]

    def _truncate(self, why: str) -> None:
        self.total = self.TOTAL + 1
        self._partial.clear()
        self.queue.append((self._stream, f"… output truncated: {why}"))

    def _emit(self, line: bytes) -> None:
        if self.count == self.COUNT:
            self.count += 1
            self._truncate(f"more than {self.COUNT} lines in one run")
        if self.count > self.COUNT:
            return
        self.count += 1
        text = line.removesuffix(b"\r").decode(errors="replace")
        if len(text) > self.LINE:
            text = text[: self.LINE] + "…"
        self.queue.append((self._stream, text))

    def finish(self) -> None:
        """Pass on what is left without a newline at its end."""
        if self._partial:
            self._emit(bytes(self._partial))
            self._partial.clear()

    def ready(self) -> bool:
        """Printing never waits."""
        return True
