"""Frames hold a content or its difference from a template exactly, and damage to them is found."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.compressed import FRAME, FrameCorrupt, compress, decompress

TEMPLATE = random.Random(1).randbytes(300_000)
CONTENT = TEMPLATE[:100_000] + b"changed" + TEMPLATE[100_000:]


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.booleans())
def test_content_comes_back(content: bytes, template: bytes, similar: bool) -> None:
    content += template * similar
    frame = compress(content, template)
    assert frame.startswith(FRAME)
    assert decompress(frame, template, limit=len(content)) == content


def test_difference_is_small() -> None:
    frame = compress(CONTENT, TEMPLATE)
    assert len(frame) < 200
    assert decompress(frame, TEMPLATE, limit=1 << 20) == CONTENT


@pytest.mark.parametrize("length", [0, 3, 4, 12, 40, -1])
def test_cut_frame_is_corrupt(length: int) -> None:
    frame = compress(CONTENT, TEMPLATE)
    with pytest.raises(FrameCorrupt):
        decompress(frame[:length], TEMPLATE, limit=1 << 20)


def test_altered_frame_never_yields_the_content() -> None:
    frame = compress(CONTENT, TEMPLATE)
    for at in range(len(frame)):
        altered = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
        try:
            assert decompress(altered, TEMPLATE, limit=1 << 20) != CONTENT or at < 6  # parts of the header
        except FrameCorrupt:
            continue


@pytest.mark.parametrize("template", [b"", TEMPLATE[1:], bytes(len(TEMPLATE))])
def test_other_template_does_not_yield_the_content(template: bytes) -> None:
    frame = compress(CONTENT, TEMPLATE)
    with contextlib.suppress(FrameCorrupt):
        assert decompress(frame, template, limit=1 << 20) != CONTENT


def test_data_after_a_frame_is_corrupt() -> None:
    with pytest.raises(FrameCorrupt, match="followed by other data"):
        decompress(compress(b"content") + b"x", limit=100)


def test_content_above_the_limit_is_rejected_while_it_is_read() -> None:
    bomb = compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(FrameCorrupt, match="more than 1048576 bytes"):
        decompress(bomb, limit=1 << 20)


def test_frame_that_needs_more_memory_is_corrupt() -> None:
    # A frame header with a window of 2^31 bytes, which a reader would have to allocate.
    with pytest.raises(FrameCorrupt):
        decompress(FRAME + bytes([0x00, 0xA8]) + bytes(16), limit=1 << 20)
