"""Bytes as ASCII, so that they can cross the host boundary as strings.

A `list<u8>` crosses element by element, a `string` as one block; but a string must be UTF-8. Packed, 56
bytes become 64 ASCII characters: each byte without its highest bit, and then eight characters that hold the
highest bits, character j those of bytes j, j + 8, j + 16 …, the first of them lowest. Seven bits to a
character keep the work to shifts of whole words.

Owns this format, the WebAssembly functions that work with it, which the overlay puts into components, and
the host's own instance of them: Python has nothing as fast. Pointers stay in here.
"""

import ctypes
import struct
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from wasmtime import Engine, Instance, Module, Store, wat2wasm
from wasmtime.component import _types as types

from engine.wasm.abi import LIBRARY, block, bytes_at
from engine.wasm.codec import (
    argument_lifter,
    lifter,
    lower_pair,
    lower_text,
    lowerer,
    result_encoder,
)

MOST = 65536
"""The most bytes that are packed at once."""
_BLOCK, _PACKED_BLOCK, _WORDS = 56, 64, 7
# Places in the memory that packing works in, three pages: a call's results, bytes, and bytes packed.
RESULTS = 0
RAW = 64
PACKED = RAW + MOST + _PACKED_BLOCK
PAGES = 3
_LOW, _HIGH = 0x7F7F7F7F7F7F7F7F, 0x0101010101010101


def packed_size(count: int) -> int:
    """Return how many characters so many bytes become."""
    return -(-count // _BLOCK) * _PACKED_BLOCK


def _pack_word(index: int) -> str:
    return f"""
      (local.set $word (i64.load offset={RAW + 8 * index} align=1 (local.get $from)))
      (i64.store offset={PACKED + 8 * index} align=1 (local.get $to)
        (i64.and (local.get $word) (i64.const {_LOW:#x})))
      (local.set $high (i64.or (local.get $high)
        (i64.shl
          (i64.and (i64.shr_u (local.get $word) (i64.const 7)) (i64.const {_HIGH:#x}))
          (i64.const {index}))))"""


def _unpack_word(index: int) -> str:
    return f"""
      (i64.store offset={RAW + 8 * index} align=1 (local.get $from)
        (i64.or
          (i64.load offset={PACKED + 8 * index} align=1 (local.get $to))
          (i64.shl
            (i64.and (i64.shr_u (local.get $high) (i64.const {index})) (i64.const {_HIGH:#x}))
            (i64.const 7))))"""


FUNCTIONS = f"""
  (func $packed_size (param $count i32) (result i32)
    (i32.mul
      (i32.div_u (i32.add (local.get $count) (i32.const {_BLOCK - 1})) (i32.const {_BLOCK}))
      (i32.const {_PACKED_BLOCK})))
  (func $pack (param $count i32) (result i32)
    (local $from i32) (local $to i32) (local $word i64) (local $high i64)
    (loop $each
      (local.set $high (i64.const 0)){"".join(map(_pack_word, range(_WORDS)))}
      (i64.store offset={PACKED + 8 * _WORDS} align=1 (local.get $to) (local.get $high))
      (local.set $to (i32.add (local.get $to) (i32.const {_PACKED_BLOCK})))
      (br_if $each
        (i32.lt_u
          (local.tee $from (i32.add (local.get $from) (i32.const {_BLOCK})))
          (local.get $count))))
    (local.get $to))
  (func $unpack (param $count i32)
    (local $from i32) (local $to i32) (local $high i64)
    (loop $each
      (local.set $high (i64.load offset={PACKED + 8 * _WORDS} align=1 (local.get $to))){
    "".join(map(_unpack_word, range(_WORDS)))
}
      (local.set $to (i32.add (local.get $to) (i32.const {_PACKED_BLOCK})))
      (br_if $each
        (i32.lt_u
          (local.tee $from (i32.add (local.get $from) (i32.const {_BLOCK})))
          (local.get $count)))))
"""
"""`$pack` and `$unpack` work on the first memory of the module that they are part of, between its places RAW
and PACKED. They take a number of bytes, from 1 to MOST; `$pack` returns the number of characters."""

_HOST = f"""(module (memory (export "memory") {PAGES} {PAGES})
  {FUNCTIONS}
  (export "pack" (func $pack))
  (export "unpack" (func $unpack)))"""

_P = ctypes.c_void_p
_call = ctypes.PyDLL(LIBRARY)["wasmtime_func_call_unchecked"]
_call.restype = _P
_call.argtypes = [_P, _P, _P, ctypes.c_size_t, _P]


@cache
def _compiled() -> tuple[Engine, Module]:
    engine = Engine()
    return engine, Module(engine, bytes(wat2wasm(_HOST)))


class _Packer:
    """An instance of the functions, for one thread."""

    def __init__(self) -> None:
        engine, module = _compiled()
        store = Store(engine)
        exports: Any = Instance(store, module, []).exports(store)
        memory = exports["memory"]
        self._keep = (store, exports)
        self._context = ctypes.cast(store._context(), _P).value
        self._functions = {name: exports[name]._func for name in ("pack", "unpack")}
        base = ctypes.cast(memory.data_ptr(store), _P).value or 0
        self.raw, self.packed = base + RAW, base + PACKED
        self._value = (ctypes.c_uint64 * 2)()  # a wasmtime_val_raw_t
        self._trap = _P()

    def run(self, name: str, count: int) -> None:
        """Call a function with a number of bytes."""
        self._value[0] = count
        function, value = ctypes.addressof(self._functions[name]), ctypes.addressof(self._value)
        if _call(self._context, function, value, 1, ctypes.addressof(self._trap)) or self._trap:
            raise RuntimeError("packing failed")


_threads = threading.local()


def _packer() -> _Packer:
    try:
        packer: _Packer = _threads.packer
    except AttributeError:
        packer = _threads.packer = _Packer()
    return packer


def pack(data: bytes) -> tuple[int, int]:
    """Pack 1 to MOST bytes; return address and size of the text, there until this thread packs again."""
    packer, count = _packer(), len(data)
    if not 0 < count <= MOST:
        raise ValueError(f"{count} bytes can not be packed at once")
    ctypes.memmove(packer.raw, data, count)
    # What an earlier call left behind the bytes is nobody's business.
    ctypes.memset(packer.raw + count, 0, _BLOCK)
    packer.run("pack", count)
    return packer.packed, packed_size(count)


def unpack(text: int, size: int, count: int) -> bytes:
    """Return the bytes, `count` of them, that are packed in `size` characters at an address.

    Raises `ValueError` when they can not be: the numbers are whatever a component gave.
    """
    if not 0 < count <= MOST or size != packed_size(count):
        raise ValueError(f"{size} characters do not hold {count} bytes")
    packer = _packer()
    ctypes.memmove(packer.packed, text, size)
    packer.run("unpack", count)
    return ctypes.string_at(packer.raw, count)


class TooMany:
    """Stands for more than MOST bytes, which no call may carry: all that is known of them is how many."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count


def packed_arguments(function: types.FuncType) -> Callable[[Any, int], Any]:
    """Return `f(handles, address) -> arguments`; a string, and a count after it, are one argument: bytes."""
    kinds = [kind for _, kind in function.params]
    strings = [isinstance(kind, types.String) for kind in kinds]
    if not any(strings):
        return argument_lifter(function)
    if strings[:2] != [False, True] or len(kinds) > 3:
        raise TypeError("no function that bytes cross to")
    resource, words = lifter(kinds[0]), struct.Struct(f"<{4 * len(kinds)}Q")
    values_at, unpack_words = block(words.size), words.unpack_from

    def straight(h: Any, at: int) -> Any:
        w = unpack_words(values_at(at))
        return resource(h, w[1], w[2], w[3]), bytes_at(w[6], w[5]) if w[5] else b""

    def packed(h: Any, at: int) -> Any:
        w = unpack_words(values_at(at))
        count = w[9] & 0xFFFFFFFF
        data = unpack(w[6], w[5], count) if count <= MOST else TooMany(count)
        return resource(h, w[1], w[2], w[3]), data

    return straight if len(kinds) == 2 else packed


def packed_result(
    function: types.FuncType,
) -> tuple[Callable[[Any, Any], bytes | None], Callable[[Any, Any], bytes]]:
    """Return how a value and an error become the result; bytes become a tuple of text and count."""
    kind = function.result
    if not isinstance(kind, types.ResultType) or not isinstance(kind.ok, types.TupleType):
        return result_encoder(function)
    count = lowerer(kind.ok.elements[1])

    def text(h: Any, data: bytes) -> bytes:
        if not data or data.isascii():
            return lower_pair(h, lower_text(h, data, len(data)), count(h, len(data)))
        return lower_pair(h, lower_text(h, *pack(data)), count(h, len(data)))

    return result_encoder(function, text)
