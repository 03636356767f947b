"""Huffman strings are decoded as by hpack."""

from hpack.exceptions import HPACKDecodingError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman as decode_by_hpack
from hypothesis import given
from hypothesis import strategies as st

from engine.http.frame_budget import BlockDecoder, decode_huffman

ENCODER = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@given(st.binary(max_size=200))
def test_encoded_bytes_are_decoded(text: bytes) -> None:
    assert decode_huffman(ENCODER.encode(text)) == text


@given(st.binary(max_size=8) | st.binary(max_size=6).map(lambda end: ENCODER.encode(b"value") + end))
def test_any_bytes_are_decoded_or_refused_as_by_hpack(data: bytes) -> None:
    try:
        expected = decode_by_hpack(data)
    except HPACKDecodingError:
        expected = None
    try:
        decoded = decode_huffman(data)
    except HPACKDecodingError:
        decoded = None
    assert decoded == expected


def test_heads_are_decoded_by_it() -> None:
    assert BlockDecoder.__base__._decode_literal.__globals__["decode_huffman"] is decode_huffman
