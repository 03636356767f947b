"""A budget for HTTP/2 frames that cost the server more than the client: PING, SETTINGS, resets, empty frames.

Such frames need no stream and no window, so neither limits their number. The budget is checked before the
frames are processed. All frames are processed in turns of the event loop with a bounded cost.

Header blocks (HPACK, RFC 7541) are decoded with bounded costs, too. hpack decodes Huffman codes in Python,
which takes 2 ms of the event loop for a head of 16 KiB. QPACK has the same code (RFC 9204 4.1.2), and
ls-qpack decodes it in C.
"""

from collections.abc import Iterable, Iterator

from hpack import hpack
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder, encode_integer
from hpack.struct import HeaderTuple
from pylsqpack import Decoder as QpackDecoder
from pylsqpack import DecompressionFailed

from engine.http.messages import HEADER_BYTES, MAX_FIELDS

MAX_FRAMES = 2000
"""Frames that a connection may send at once."""
FRAMES_PER_SECOND = 200
"""Frames that it may send per second in the long run."""
SENT_BYTES_PER_FRAME = 1024
"""Bytes received by the client for each further frame, which may be a WINDOW_UPDATE for them."""
FRAMES_PER_TURN = 64
"""Frames that are handled in one turn of the event loop, in about a millisecond. SETTINGS cost no more."""
REQUEST_FRAMES = 8
"""Frames that take as long as the HEADERS of a request."""
FIELD_BYTES_PER_FRAME = 100
"""Bytes of a header block that take as long as a frame."""
BLOCK_BYTES = 16 << 10
"""The largest header block before it is decoded, which takes up to 0.1 µs a byte."""
_PREFACE_BYTES = 24
_HEAD_BYTES = 9
_SETTING_BYTES = 6
_DATA, _HEADERS, _SETTINGS, _CONTINUATION = 0, 1, 4, 9
_END_STREAM, _PADDED = 1, 8
_MAX_PADDING = 256
"""A padded frame of this size may have no data."""


class FrameFlood(Exception):
    """The frames of a connection exceed its budget, or one of them exceeds its limit."""


class FrameBudget:
    """The budget of one connection. `now` is in seconds."""

    __slots__ = ("_block_bytes", "_filled_at", "_frames", "_head", "_in_block", "_skip")

    def __init__(self, now: float) -> None:
        self._frames = float(MAX_FRAMES)
        self._filled_at = now
        self._skip = _PREFACE_BYTES
        self._head = b""
        self._block_bytes = 0
        self._in_block = False
        """Whether the last frame is part of a header block."""

    def sent(self, size: int) -> None:
        self._frames += size / SENT_BYTES_PER_FRAME

    def receive(self, data: bytes, now: float) -> Iterator[tuple[bytes, int]]:
        """Yield received bytes in parts with their costs in frames, at most `FRAMES_PER_TURN` or one frame.

        A part completes at most one header block. Raises `FrameFlood` if the budget does not suffice.
        """
        elapsed, self._filled_at = now - self._filled_at, now
        self._frames = min(float(MAX_FRAMES), self._frames + elapsed * FRAMES_PER_SECOND)
        start = len(self._head) if data else 0
        data = self._head + data
        position, cost = self._skip, 0
        while position + _HEAD_BYTES <= len(data):
            length = int.from_bytes(data[position : position + 3])
            added = self._charge(data[position + 3], data[position + 4], length)
            if position > start and (self._in_block or cost + added > FRAMES_PER_TURN):
                yield data[start:position], cost
                start, cost = position, 0
            self._in_block = data[position + 3] in (_HEADERS, _CONTINUATION)
            cost += added
            position += _HEAD_BYTES + length
        self._head = data[position:]
        self._skip = max(0, position - len(data))
        if start < len(data):
            yield data[start:], cost

    def _charge(self, kind: int, flags: int, length: int) -> int:
        """Charge a frame; return its cost. Raises `FrameFlood`."""
        cost = 1
        if kind == _SETTINGS:
            cost += length // _SETTING_BYTES
        elif kind in (_HEADERS, _CONTINUATION):
            self._block_bytes = length + (self._block_bytes if kind == _CONTINUATION else 0)
            cost += length // FIELD_BYTES_PER_FRAME + (REQUEST_FRAMES if kind == _HEADERS else 0)
            if self._block_bytes > BLOCK_BYTES:
                raise FrameFlood
        padding = flags & _PADDED and length <= _MAX_PADDING
        if (kind == _DATA and ((length and not padding) or flags & _END_STREAM)) or (
            kind == _HEADERS and length
        ):
            return cost
        self._frames -= cost if kind == _SETTINGS else 1
        if self._frames < 0 or (kind == _SETTINGS and cost > FRAMES_PER_TURN):
            raise FrameFlood
        return cost


_FIELD = b"\0\0\x21-"
"""The start of a field section without a dynamic table, and of a field with the name `-` (RFC 9204 4.5)."""
_HUFFMAN = 0x80


def decode_huffman(data: bytes | bytearray | memoryview | None) -> bytes:
    """Decode a string. Raises `HPACKDecodingError`."""
    if not data:
        return b""
    length = encode_integer(len(data), 7)
    length[0] |= _HUFFMAN
    try:
        _, fields = QpackDecoder(0, 0).feed_header(0, _FIELD + length + data)
    except DecompressionFailed as error:
        raise HPACKDecodingError("invalid Huffman code") from error
    return bytes(fields[0][1])


hpack.decode_huffman = decode_huffman  # type: ignore[attr-defined, assignment]


class BlockDecoder(Decoder):
    """Decodes header blocks, and measures them. The fields of an oversized block are dropped."""

    cost = 0
    """Cost of the decoded blocks in frames; the connection resets it."""
    oversized = False
    """Whether the last block is larger than a request head may be."""
    _updates = _fields = 0

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Decode a block. Raises `HPACKError`."""
        self._updates = self._fields = 0
        fields = list(super().decode(data, raw))
        size = sum(len(name) + len(value) for name, value in fields)
        self.cost += (size + 32 * len(fields)) // FIELD_BYTES_PER_FRAME  # RFC 7541 4.1
        self.oversized = size > HEADER_BYTES or len(fields) > MAX_FIELDS
        return [field for field in fields if field[0].startswith(b":")] if self.oversized else fields

    def _decode_indexed(self, data: bytes | memoryview) -> tuple[HeaderTuple, int]:
        self._count()
        return super()._decode_indexed(data)

    def _decode_literal(self, data: bytes | memoryview, should_index: bool) -> tuple[HeaderTuple, int]:
        self._count()
        return super()._decode_literal(data, should_index)

    def _count(self) -> None:
        self._fields += 1
        if self._fields > 2 * MAX_FIELDS:
            raise OversizedHeaderListError("too many fields")

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._updates += 1
        if self._updates > 2:  # RFC 7541 4.2
            raise HPACKDecodingError("more than two updates of the size of the table")
        return super()._update_encoding_context(data)
