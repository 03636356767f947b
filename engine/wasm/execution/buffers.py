"""Buffers between the event loop and a guest.

One side of a buffer is the guest (host functions, possibly in a worker thread), the other the event loop. A
buffer is a deque whose single operations are atomic, so neither side locks.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.wasm.execution.run_state import RunState

BUFFER_BYTES = 262_144
"""Size at which a buffer applies backpressure: four calls of 64 KiB."""


class InputBuffer:
    """Bytes fed by the event loop and read by the guest; `account` is charged for buffered bytes."""

    __slots__ = ("_account", "_begin", "_parts", "_size", "discarding", "ended", "error", "on_drained")

    def __init__(self, *, ended: bool = False, account: "RunState | None" = None) -> None:
        self._account = account
        self._parts: deque[bytes] = deque()
        self._begin = 0  # Offset of the unread rest of the first part.
        self._size = 0
        self.ended = ended
        self.error: Any = None
        self.discarding = False
        self.on_drained: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        """True while the loop must pause its source."""
        return self._size >= BUFFER_BYTES

    def feed(self, data: bytes) -> None:
        """Add bytes from the loop's side; discarded if the guest closed the stream."""
        if data and not self.discarding:
            self._parts.append(data)
            self._size += len(data)
            if self._account is not None:
                self._account.held_bytes += len(data)

    def end(self, error: Any = None) -> None:
        """Mark end of input, with an `error` (a wasi:http error-code) if it is incomplete."""
        self.error = error
        self.ended = True

    def discard(self) -> None:
        """Drop buffered and all further input."""
        self.discarding = True
        if self._account is not None:
            self._account.held_bytes -= self._size
        self._parts.clear()
        self._size = self._begin = 0
        self._notify_drained()

    def take(self, limit: int) -> bytes:
        """Return up to `limit` bytes, or `b""` if none are available."""
        if not self._parts:
            return b""
        parts, size = list[bytes](), 0
        while self._parts and size < limit:  # Each call costs the guest more than the bytes.
            part, begin = self._parts[0], self._begin
            self._begin = begin + limit - size
            parts.append(part[begin : self._begin])
            size += len(parts[-1])
            if self._begin >= len(part):
                self._parts.popleft()
                self._begin = 0
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._size -= size
        if self._account is not None:
            self._account.held_bytes -= len(data)
        if not self.full:
            self._notify_drained()
        return data

    def _notify_drained(self) -> None:
        if self.on_drained is not None:
            self.on_drained()

    @property
    def exhausted(self) -> bool:
        """True once every byte was read and the input has ended."""
        return self.ended and not self._parts

    def ready(self) -> bool:
        """Return whether a read would return at once: bytes, the end, or an error."""
        return bool(self._parts) or self.ended


class OutputBuffer:
    """Bytes written by the guest and drained by the event loop.

    `finished` is set once the guest completed the body; `broken` has the reason why no more is sent.
    """

    __slots__ = ("_chunks", "_size", "broken", "discarding", "finished", "on_change")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.discarding = False
        self.finished = False
        self.broken: Any = None
        self.on_change: Callable[[], None] | None = None

    def changed(self) -> None:
        """Notify the draining side of new bytes or of the end."""
        if self.on_change is not None:
            self.on_change()

    def end(self, broken: Any = None) -> None:
        """End the body, or stop it as `broken`. The draining side is notified for the last time."""
        self.finished, self.broken = broken is None, broken
        self.changed()
        self.on_change = None

    def room(self) -> int:
        """Return how many bytes the guest may write now."""
        return max(0, BUFFER_BYTES - self._size)

    def put(self, data: bytes) -> None:
        if data and not self.discarding:
            self._chunks.append(data)
            self._size += len(data)
            self.changed()

    def drain(self) -> bytes:
        """Return and remove all buffered bytes."""
        chunks = self._chunks
        if not chunks:
            return b""
        data = (
            chunks.popleft() if len(chunks) == 1 else b"".join(chunks.popleft() for _ in range(len(chunks)))
        )
        self._size -= len(data)
        return data

    def discard(self) -> None:
        """Drop buffered and all further output."""
        self.discarding, self.on_change = True, None
        self._chunks.clear()
        self._size = 0

    @property
    def empty(self) -> bool:
        return not self._chunks

    def ready(self) -> bool:
        """Return whether a waiting writer may resume: there is space, or an error to report."""
        return self._size < BUFFER_BYTES or self.broken is not None


class LineSplitter:
    """Splits a guest's printed output into lines.

    A line is at most 8 KiB, and each stream of a run has at most 1 MiB and 10,000 lines; the rest is dropped,
    and one line reports that. Bytes that are not UTF-8 appear as U+FFFD.
    """

    MAX_LINE_CHARS = 8192
    MAX_BYTES = 1 << 20
    MAX_LINES = 10_000

    __slots__ = ("_partial", "_stream", "count", "queue", "total")

    def __init__(self, stream: str, queue: deque[tuple[str, str]]) -> None:
        self._stream = stream
        self._partial = bytearray()
        self.queue = queue
        self.total = 0
        self.count = 0

    def put(self, data: bytes) -> None:
        """Add printed bytes."""
        if self.total > self.MAX_BYTES:
            return
        self.total += len(data)
        if self.total > self.MAX_BYTES:
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
        while len(self._partial) > self.MAX_LINE_CHARS:
            self._emit(bytes(self._partial[: self.MAX_LINE_CHARS]))
            del self._partial[: self.MAX_LINE_CHARS]

    def _truncate(self, why: str) -> None:
        self.total = self.MAX_BYTES + 1
        self._partial.clear()
        self.queue.append((self._stream, f"… output truncated: {why}"))

    def _emit(self, line: bytes) -> None:
        if self.count == self.MAX_LINES:
            self.count += 1
            self._truncate(f"more than {self.MAX_LINES} lines in one run")
        if self.count > self.MAX_LINES:
            return
        self.count += 1
        text = line.removesuffix(b"\r").decode(errors="replace")
        if len(text) > self.MAX_LINE_CHARS:
            text = text[: self.MAX_LINE_CHARS] + "…"
        self.queue.append((self._stream, text))

    def finish(self) -> None:
        """Emit the remainder without a newline."""
        if self._partial:
            self._emit(bytes(self._partial))
            self._partial.clear()
