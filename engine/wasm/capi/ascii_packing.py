"""ASCII encoding of bytes, so that they can cross the host boundary as strings.

A `list<u8>` crosses element by element, a `string` as one block, but a string must be UTF-8. 56 bytes are
packed into 64 ASCII characters: each byte without its highest bit, then eight characters with the highest
bits. Character j of these holds the bits of bytes j, j + 8, j + 16 ..., the first of them lowest. With seven
bits per character, the work is shifts of whole words.

This module has the WebAssembly functions for the format, which `weave/` adds to components, and the
host's own instance of them, because nothing in Python is as fast.
"""

import ctypes
import threading
from functools import cache
from typing import Any

from wasmtime import Engine, Instance, Module, Store, wat2wasm

from engine.wasm.capi.wasmtime import LIBRARY, declare

MAX_PACKED_BYTES = 65536
"""Maximum number of bytes packed at once."""
BLOCK_BYTES = 56
"""Bytes per block."""
BLOCK_CHARS = 64
"""Characters per packed block."""
_WORDS = BLOCK_BYTES // 8
_LOW, _HIGH = 0x7F7F7F7F7F7F7F7F, 0x0101010101010101


def packed_size(count: int) -> int:
    """Return the number of characters for `count` packed bytes."""
    return -(-count // BLOCK_BYTES) * BLOCK_CHARS


def _pack_word(index: int, raw: str, packed: str) -> str:
    return f"""
      (local.set $word (i64.load {raw} offset={8 * index} align=1 (local.get $from)))
      (i64.store {packed} offset={8 * index} align=1 (local.get $to)
        (i64.and (local.get $word) (i64.const {_LOW:#x})))
      (local.set $high (i64.or (local.get $high)
        (i64.shl
          (i64.and (i64.shr_u (local.get $word) (i64.const 7)) (i64.const {_HIGH:#x}))
          (i64.const {index}))))"""


def _unpack_word(index: int, raw: str, packed: str) -> str:
    return f"""
      (i64.store {raw} offset={8 * index} align=1 (local.get $to)
        (i64.or
          (i64.load {packed} offset={8 * index} align=1 (local.get $from))
          (i64.shl
            (i64.and (i64.shr_u (local.get $high) (i64.const {index})) (i64.const {_HIGH:#x}))
            (i64.const 7))))"""


def wat_functions(suffix: str, raw: str, packed: str) -> str:
    """Return `$pack<suffix>` and `$unpack<suffix>` as text, between memories of bytes and characters.

    Each takes the source address, the target address and a number of bytes of at least 1, and returns the end
    of the written range. They read and write complete blocks, so up to 55 bytes more.
    """
    pack_words = "".join(_pack_word(index, raw, packed) for index in range(_WORDS))
    unpack_words = "".join(_unpack_word(index, raw, packed) for index in range(_WORDS))
    return f"""
  (func $pack{suffix} (param $from i32) (param $to i32) (param $count i32) (result i32)
    (local $end i32) (local $word i64) (local $high i64)
    (local.set $end (i32.add (local.get $from) (local.get $count)))
    (loop $each
      (local.set $high (i64.const 0)){pack_words}
      (i64.store {packed} offset={8 * _WORDS} align=1 (local.get $to) (local.get $high))
      (local.set $to (i32.add (local.get $to) (i32.const {BLOCK_CHARS})))
      (local.set $from (i32.add (local.get $from) (i32.const {BLOCK_BYTES})))
      (br_if $each (i32.lt_u (local.get $from) (local.get $end))))
    (local.get $to))
  (func $unpack{suffix} (param $from i32) (param $to i32) (param $count i32) (result i32)
    (local $end i32) (local $high i64)
    (local.set $end (i32.add (local.get $to) (local.get $count)))
    (loop $each
      (local.set $high (i64.load {packed} offset={8 * _WORDS} align=1 (local.get $from))){unpack_words}
      (local.set $from (i32.add (local.get $from) (i32.const {BLOCK_CHARS})))
      (local.set $to (i32.add (local.get $to) (i32.const {BLOCK_BYTES})))
      (br_if $each (i32.lt_u (local.get $to) (local.get $end))))
    (local.get $to))
"""


# Addresses in the instance's memory: bytes, and packed bytes.
_RAW, _PACKED, _PAGES = 0, MAX_PACKED_BYTES + BLOCK_BYTES, 3
_HOST_WAT = f"""(module (memory (export "memory") {_PAGES} {_PAGES})
  {wat_functions("", "0", "0")}
  (export "pack" (func $pack))
  (export "unpack" (func $unpack)))"""

_P = ctypes.c_void_p
_call_unchecked = declare(
    ctypes.PyDLL(LIBRARY), "wasmtime_func_call_unchecked", _P, _P, _P, _P, ctypes.c_size_t, _P
)


@cache
def _compiled() -> tuple[Engine, Module]:
    engine = Engine()
    return engine, Module(engine, bytes(wat2wasm(_HOST_WAT)))


class _Packer:
    """An instance of the functions for one thread."""

    def __init__(self) -> None:
        engine, module = _compiled()
        store = Store(engine)
        exports: Any = Instance(store, module, []).exports(store)
        memory = exports["memory"]
        functions = [exports[name]._func for name in ("pack", "unpack")]
        self._references = (store, exports, functions)
        self._context = ctypes.cast(store._context(), _P).value
        self.pack, self.unpack = map(ctypes.addressof, functions)
        base = ctypes.cast(memory.data_ptr(store), _P).value or 0
        self.raw, self.packed = base + _RAW, base + _PACKED
        self._values = (ctypes.c_uint64 * 6)()  # three of wasmtime_val_raw_t
        self._values_at = ctypes.addressof(self._values)
        self._trap = _P()
        self._trap_at = ctypes.addressof(self._trap)

    def run(self, function: int, source: int, target: int, count: int) -> None:
        """Call a function with addresses and number of bytes. Raises RuntimeError on a trap."""
        values = self._values
        values[0], values[2], values[4] = source, target, count
        if _call_unchecked(self._context, function, self._values_at, 3, self._trap_at) or self._trap:
            raise RuntimeError("packing failed")


_thread_local = threading.local()


def _packer() -> _Packer:
    try:
        packer: _Packer = _thread_local.packer
    except AttributeError:
        packer = _thread_local.packer = _Packer()
    return packer


def pack(data: bytes) -> tuple[int, int]:
    """Pack 1 to MAX_PACKED_BYTES bytes; return address and size of the text, valid until this thread's next
    call.

    Raises `ValueError` for any other size.
    """
    packer, count = _packer(), len(data)
    if not 0 < count <= MAX_PACKED_BYTES:
        raise ValueError(f"{count} bytes cannot be packed at once")
    ctypes.memmove(packer.raw, data, count)
    if count % BLOCK_BYTES:  # Erase leftovers of an earlier call.
        ctypes.memset(packer.raw + count, 0, BLOCK_BYTES)
    packer.run(packer.pack, _RAW, _PACKED, count)
    return packer.packed, packed_size(count)


def unpack(text: int, size: int, count: int) -> bytes:
    """Return `count` bytes packed in `size` characters at an address.

    Raises `ValueError` for inconsistent sizes, because a component chooses these numbers.
    """
    if not 0 < count <= MAX_PACKED_BYTES or size != packed_size(count):
        raise ValueError(f"{size} characters do not hold {count} bytes")
    packer = _packer()
    ctypes.memmove(packer.packed, text, size)
    packer.run(packer.unpack, _PACKED, _RAW, count)
    return ctypes.string_at(packer.raw, count)
