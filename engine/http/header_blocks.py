"""Header blocks of HTTP/2 (HPACK, RFC 7541), decoded with bounded costs.

hpack decodes Huffman codes in Python, which takes 2 ms of the event loop for a head of 16 KiB. QPACK has the
same code (RFC 9204 4.1.2), and ls-qpack decodes it in C.
"""

from collections.abc import Iterable

from hpack import hpack
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder, encode_integer
from hpack.struct import HeaderTuple
from pylsqpack import Decoder as QpackDecoder
from pylsqpack import DecompressionFailed

from engine.http.frame_budget import FIELD_BYTES_PER_FRAME
from engine.http.messages import HEADER_BYTES, MAX_FIELDS

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
