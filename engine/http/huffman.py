"""Huffman decoding of HPACK in C: QPACK has the same code (RFC 9204 4.1.2), and ls-qpack decodes it.

hpack decodes in Python, which takes 2 ms of the event loop for a head of 16 KiB.
"""

from hpack.exceptions import HPACKDecodingError
from hpack.hpack import encode_integer
from pylsqpack import Decoder, DecompressionFailed

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
        _, fields = Decoder(0, 0).feed_header(0, _FIELD + length + data)
    except DecompressionFailed as error:
        raise HPACKDecodingError("invalid Huffman code") from error
    return bytes(fields[0][1])
