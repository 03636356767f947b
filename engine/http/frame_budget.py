"""A budget for HTTP/2 frames that cost the server more than the client: PING, SETTINGS, resets, empty frames.

Such frames need no stream and no window, so neither limits their number. The budget is checked before the
frames are processed.
"""

import asyncio
from collections import deque

MAX_FRAMES = 2000
"""Frames that a connection may send at once."""
FRAMES_PER_SECOND = 200
"""Frames that it may send per second in the long run."""
SENT_BYTES_PER_FRAME = 1024
"""Bytes received by the client for each further frame, which may be a WINDOW_UPDATE for them."""
FRAMES_PER_TURN = 128
"""Frames that are handled in one turn of the event loop, in a few milliseconds."""
REQUEST_FRAMES = 8
"""Frames that take as long as the HEADERS of a request."""
_PREFACE_BYTES = 24
_HEAD_BYTES = 9
_DATA, _HEADERS = 0, 1
_END_STREAM, _PADDED = 1, 8
_MAX_PADDING = 256
"""A padded frame of this size may have no data."""


class FrameTurns:
    """Turns of connections with many frames: one of them in each iteration of the event loop."""

    def __init__(self) -> None:
        self._in_use = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for the turn of a connection."""
        if not self._in_use:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _take(self) -> None:
        self._in_use = True
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._in_use = False
        while self._waiting and not self._in_use:
            turn = self._waiting.popleft()
            if not turn.done():  # It is done if the connection was canceled.
                turn.set_result(None)
                self._take()


class FrameBudget:
    """The budget of one connection. `now` is in seconds."""

    __slots__ = ("_filled_at", "_frames", "_head", "_skip", "large", "turns")

    def __init__(self, now: float) -> None:
        self._frames = float(MAX_FRAMES)
        self._filled_at = now
        self._skip = _PREFACE_BYTES
        self._head = b""
        self.turns: list[int] = []
        """Places in the bytes received last at which to leave the turn to others."""
        self.large = False
        """Whether these bytes take a large part of a turn."""

    def sent(self, size: int) -> None:
        """Add to the budget for bytes sent to the client."""
        self._frames += size / SENT_BYTES_PER_FRAME

    def receive(self, data: bytes, now: float) -> bool:
        """Charge the frames that begin in received bytes; return whether the budget suffices."""
        elapsed, self._filled_at = now - self._filled_at, now
        self._frames = min(float(MAX_FRAMES), self._frames + elapsed * FRAMES_PER_SECOND)
        position, end, before = self._skip, len(data), 0
        if self._head and position < end:
            before = len(self._head)
            data, end = self._head + data, end + before
        charged = frames = 0
        self.turns.clear()
        while position + _HEAD_BYTES <= end:
            length = int.from_bytes(data[position : position + 3])
            kind, flags = data[position + 3], data[position + 4]
            padding = flags & _PADDED and length <= _MAX_PADDING
            if (kind == _DATA and ((length and not padding) or flags & _END_STREAM)) or (
                kind == _HEADERS and length
            ):
                pass
            else:
                charged += 1
            frames += REQUEST_FRAMES if kind == _HEADERS else 1
            if frames >= FRAMES_PER_TURN and position > before:
                self.turns.append(position - before)
                frames = 0
            position += _HEAD_BYTES + length
        self._head = data[position:] if position < end else b""
        self._skip = max(0, position - end)
        self.large = bool(self.turns) or frames >= FRAMES_PER_TURN // 2
        self._frames -= charged
        return self._frames >= 0
