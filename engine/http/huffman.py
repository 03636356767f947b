"""Huffman decoding of HPACK (RFC 7541 5.2), a byte at a time: twice as fast as by four bits, as hpack does.

The time of a decoded head is the longest turn that an HTTP/2 connection has of the event loop.
"""

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

_Step = tuple[bytes, "_State", bool]


class _State(dict[int, _Step]):
    """A state of hpack's table: what a byte decodes, the next state, and whether a string may end there."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, byte: int) -> _Step:
        number, decoded, flags = self._number, b"", 0
        for bits in (byte >> 4, byte & 15):
            number, flags, symbol = HUFFMAN_TABLE[number * 16 + bits]
            if flags & HUFFMAN_FAIL:
                raise HPACKDecodingError("invalid Huffman code")
            if flags & HUFFMAN_EMIT_SYMBOL:
                decoded += bytes((symbol,))
        self[byte] = found = decoded, _STATES[number], bool(flags & HUFFMAN_COMPLETE)
        return found


_STATES = [_State(number) for number in range(len(HUFFMAN_TABLE) // 16)]


def decode_huffman(data: bytes | bytearray | memoryview | None) -> bytes:
    """Decode a string. Raises `HPACKDecodingError`."""
    parts, state, complete = [], _STATES[0], True
    for byte in data or b"":
        part, state, complete = state[byte]
        parts.append(part)
    if not complete:
        raise HPACKDecodingError("incomplete Huffman code")
    return b"".join(parts)
