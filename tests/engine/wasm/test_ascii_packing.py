import ctypes
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES, pack, packed_size, unpack
from tests.support.examples import examples, is_fuzzing


def packed(data: bytes) -> bytes:
    return ctypes.string_at(*pack(data))


def unpacked(text: bytes, count: int) -> bytes:
    place = ctypes.create_string_buffer(text, len(text) or 1)
    return unpack(ctypes.addressof(place), len(text), count)


@settings(derandomize=not is_fuzzing(), max_examples=examples(200), deadline=None)
@given(st.binary(min_size=1, max_size=500), st.integers(1, 140))
def test_pack_unpack_round_trips_as_ascii(data: bytes, times: int) -> None:
    data = (data * times)[:MAX_PACKED_BYTES]
    text = packed(data)
    assert text.isascii() and len(text) == packed_size(len(data)) <= MAX_PACKED_BYTES * 8 // 7 + 64
    assert unpacked(text, len(data)) == data


def test_packed_format_matches_documentation() -> None:
    text = packed(b"\x80\x01" + bytes(53) + b"\xff")
    assert text == b"\x00\x01" + bytes(53) + b"\x7f" + b"\x01" + bytes(6) + b"\x40"


def test_pack_erases_leftovers_of_earlier_call() -> None:
    packed(b"secret " * 9000)
    assert packed(b"a") == b"a" + bytes(63)


@pytest.mark.parametrize(
    ("size", "count"), [(64, 0), (0, 1), (64, 57), (128, 56), (63, 56), (74_944, MAX_PACKED_BYTES + 1)]
)
def test_unpack_inconsistent_count_raises(size: int, count: int) -> None:
    with pytest.raises(ValueError, match="do not hold"):
        unpacked(bytes(size), count)


@pytest.mark.parametrize("size", [0, MAX_PACKED_BYTES + 1])
def test_pack_above_limit_raises(size: int) -> None:
    with pytest.raises(ValueError, match="at once"):
        pack(bytes(size))


def test_pack_is_thread_safe() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        data = bytes([number, 255]) * 20_000
        wrong.extend(number for _ in range(200) if unpacked(packed(data), len(data)) != data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
