"""Conversion of component-model values between wasmtime's C structs and plain Python.

The layout is that of `wasmtime_component_val_t`: 32 bytes, a kind, then 24 bytes of payload (source: wasmtime
50, `component/val.h`). A type is analyzed once, when a component is linked, and becomes closures.

Only the types of the host's own interfaces are supported. Python types: `int`, `bytes` for a string (UTF-8),
a `tuple`, and the value or `None` for an option. In a packed function, a string and the `u32` behind it are
the bytes that they carry (`ascii_packing.py`).
"""

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from wasmtime.component import _types as types

from engine.wasm.capi.ascii_packing import pack, unpack
from engine.wasm.capi.wasmtime import LIBRARY, PAIR, VALUE_SIZE, block, bytes_at, declare, write_at

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_declare = partial(declare, ctypes.PyDLL(LIBRARY))

_val_new = _declare("wasmtime_component_val_new", _P, ctypes.c_char_p)
_list_new = _declare("wasmtime_component_vallist_new_uninit", None, _P, _SIZE)
_bytes_new = _declare("wasm_byte_vec_new", None, _P, _SIZE, ctypes.c_char_p)
_bytes_copy = _declare("wasm_byte_vec_new", None, _P, _SIZE, _P)

_STRING, _TUPLE, _OPTION = 12, 15, 18
_INTEGERS: dict[type, tuple[int, int]] = {types.U16: (4, 16), types.U32: (6, 32), types.U64: (8, 64)}
"""Kind and bits of each integer type."""
_MASK_32 = 0xFFFFFFFF
_pack1 = struct.Struct("<QQ16x").pack
_pack2 = struct.Struct("<QQQ8x").pack

Encode = Callable[[Any, Any], bytes]


class ScratchBuffer:
    """Reusable out-parameters of one store."""

    __slots__ = ("vec", "vec_at")

    def __init__(self) -> None:
        self.vec = PAIR()
        self.vec_at = ctypes.addressof(self.vec)


def argument_lifter(function: types.FuncType, *, packed: bool = False) -> Callable[[int], tuple[Any, ...]]:
    """Return `f(address) -> arguments` for a function type. Raises TypeError for other types."""
    kinds = [kind for _, kind in function.params]
    size = VALUE_SIZE * len(kinds)
    values_at, words = block(size), struct.Struct(f"<{size // 8}Q").unpack
    readers = [(4 * i + 1, _mask(kind)) for i, kind in enumerate(kinds[:-2] if packed else kinds)]

    def read(w: tuple[int, ...]) -> list[Any]:
        return [w[i] & mask if mask else bytes_at(w[i + 1], w[i]) if w[i] else b"" for i, mask in readers]

    if not packed:
        return (lambda at: tuple(read(words(values_at(at).raw)))) if kinds else lambda at: ()
    last = 4 * len(readers) + 1

    def read_packed(at: int) -> tuple[Any, ...]:
        w = words(values_at(at).raw)
        size, text, count = w[last], w[last + 1], w[last + 4] & _MASK_32
        data = b"" if not size else bytes_at(text, size) if size == count else unpack(text, size, count)
        return (*read(w), data)

    return read_packed


def _mask(kind: types.ValType) -> int:
    """Return the mask of an integer type, 0 for a string."""
    if type(kind) in _INTEGERS:
        return (1 << _INTEGERS[type(kind)][1]) - 1
    if isinstance(kind, types.String):
        return 0
    raise TypeError(f"arguments of type {type(kind).__name__} do not cross the host boundary")


def encode_text(scratch: ScratchBuffer, data: bytes) -> bytes:
    """Return a string value; wasmtime owns the memory that the value points to."""
    _bytes_new(scratch.vec_at, len(data), data)
    return _pack2(_STRING, scratch.vec[0], scratch.vec[1])


def _packed_text(scratch: ScratchBuffer, data: bytes) -> bytes:
    if not data or data.isascii():
        return encode_text(scratch, data)
    text, size = pack(data)
    _bytes_copy(scratch.vec_at, size, text)
    return _pack2(_STRING, scratch.vec[0], scratch.vec[1])


def _tuple(scratch: ScratchBuffer, values: list[bytes]) -> bytes:
    _list_new(scratch.vec_at, len(values))
    at = scratch.vec[1]
    write_at(at, b"".join(values))
    return _pack2(_TUPLE, len(values), at)


def result_encoder(kind: types.ValType | None, *, packed: bool = False) -> Encode | None:
    """Return `f(scratch, value) -> 32 bytes` for a result type, `None` for a function without a result.

    wasmtime owns the memory that the bytes point to. Raises TypeError for types that cannot cross the host
    boundary.
    """
    return None if kind is None else _encoder(kind, packed)


def _encoder(kind: types.ValType, packed: bool = False) -> Encode:
    if type(kind) in _INTEGERS:
        tag, bits = _INTEGERS[type(kind)]
        mask = (1 << bits) - 1
        return lambda scratch, value: _pack1(tag, value & mask)
    if isinstance(kind, types.String):
        return encode_text
    if isinstance(kind, types.OptionType):
        payload = _encoder(kind.payload)
        return lambda s, value: _pack1(_OPTION, 0 if value is None else _val_new(payload(s, value)))
    if isinstance(kind, types.TupleType):
        members = [_encoder(each) for each in kind.elements]
        if not packed:
            return lambda s, value: _tuple(s, [f(s, item) for f, item in zip(members, value, strict=True)])
        count, rest = members[1], members[2:]

        def encode(s: ScratchBuffer, value: tuple[Any, ...]) -> bytes:
            data, *others = value
            values = [_packed_text(s, data), count(s, len(data))]
            return _tuple(s, values + [f(s, item) for f, item in zip(rest, others, strict=True)])

        return encode
    raise TypeError(f"values of type {type(kind).__name__} do not cross the host boundary")
