"""Conversion of component-model values between wasmtime's C structs and plain Python.

The layout is that of `wasmtime_component_val_t`: 32 bytes, a kind, then 24 bytes of payload (source: wasmtime
50, `component/val.h`). A type is analyzed once, when a component is linked, and becomes closures.

Python types: integers, floats, `bool`, `str` (also for char and enum) and `bytes` for `list<u8>`; a list is a
`list`, a tuple or record a `tuple` in declared order, an option the value or `None`, a variant `(case,
payload)`, a result `("ok", value)` or `("err", value)`, flags a `set` of names, a resource the host's own
object. A host function's own result differs: it returns the ok value, or raises `Err` with the error value.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from wasmtime.component import _types as types

from engine.wasm.capi.type_budget import count_parts
from engine.wasm.capi.wasmtime import LIBRARY, PAIR, VALUE_SIZE, block, bytes_at, declare, write_at

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_declare = partial(declare, ctypes.PyDLL(LIBRARY))

_any_to_host = _declare("wasmtime_component_resource_any_to_host", _P, _P, _P, _P)
_host_rep = _declare("wasmtime_component_resource_host_rep", ctypes.c_uint32, _P)
_host_delete = _declare("wasmtime_component_resource_host_delete", None, _P)
_host_new = _declare(
    "wasmtime_component_resource_host_new", _P, ctypes.c_bool, ctypes.c_uint32, ctypes.c_uint32
)
_host_to_any = _declare("wasmtime_component_resource_host_to_any", _P, _P, _P, _P)
_val_new = _declare("wasmtime_component_val_new", _P, ctypes.c_char_p)
_list_new = _declare("wasmtime_component_vallist_new_uninit", None, _P, _SIZE)
_record_new = _declare("wasmtime_component_valrecord_new_uninit", None, _P, _SIZE)
_flags_new = _declare("wasmtime_component_valflags_new_uninit", None, _P, _SIZE)
_bytes_new = _declare("wasm_byte_vec_new", None, _P, _SIZE, ctypes.c_char_p)
_bytes_copy = _declare("wasm_byte_vec_new", None, _P, _SIZE, _P)

_BOOL, _U32, _F32, _F64, _CHAR, _STRING = 0, 6, 9, 10, 11, 12
_LIST, _RECORD, _TUPLE, _VARIANT, _ENUM, _OPTION, _RESULT, _FLAGS, _RESOURCE = range(13, 22)
# type -> (kind, bits, signed)
_INTEGERS: dict[type, tuple[int, int, bool]] = {
    types.S8: (1, 8, True),
    types.U8: (2, 8, False),
    types.S16: (3, 16, True),
    types.U16: (4, 16, False),
    types.S32: (5, 32, True),
    types.U32: (_U32, 32, False),
    types.S64: (7, 64, True),
    types.U64: (8, 64, False),
}
_pack1 = struct.Struct("<QQ16x").pack
_pack2 = struct.Struct("<QQQ8x").pack
_pack3 = struct.Struct("<QQQQ").pack
_pack_counted_text = struct.Struct("<QQQ8xQQ16x").pack
_unpack4 = struct.Struct("<4Q").unpack_from
_U8_ELEMENT = bytes([2]) + bytes(31)
_OK_UNIT, _ERR_UNIT = _pack2(_RESULT, 1, 0), _pack2(_RESULT, 0, 0)
_CACHED_NUMBERS = 256
"""Handle numbers below this are used by every run, so their host resources are cached."""
value_at = block(VALUE_SIZE)
_pair_at = block(2 * VALUE_SIZE)


class Err(Exception):
    """Raised by a host function to return the error side of its `result`."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


class ScratchBuffer:
    """Reusable out-parameters of one store."""

    __slots__ = ("out", "out_at", "vec", "vec_at")

    def __init__(self) -> None:
        self.out = _P()
        self.out_at = ctypes.addressof(self.out)
        self.vec = PAIR()
        self.vec_at = ctypes.addressof(self.vec)


class HandleTable:
    """The resources held by one instance: representation number -> host object."""

    __slots__ = ("_next", "context", "scratch", "table")

    def __init__(self) -> None:
        self.context = 0
        self.scratch = ScratchBuffer()
        self.table: dict[int, Any] = {}
        self._next = 1

    def insert(self, item: Any) -> int:
        """Add an object and return its number."""
        number = self._next
        self._next = number + 1
        self.table[number] = item
        return number


Lift = Callable[[Any, int, int, int], Any]
Lower = Callable[[Any, Any], bytes]


def lifter(kind: types.ValType) -> Lift:
    """Return `f(handles, w1, w2, w3) -> value` for a type; the words are a value's 24 payload bytes."""
    count_parts()
    t = type(kind)
    if t in _INTEGERS:
        _, bits, signed = _INTEGERS[t]
        mask, sign = (1 << bits) - 1, 1 << (bits - 1)
        if not signed:
            return lambda h, a, b, c: a & mask
        return lambda h, a, b, c: ((a & mask) ^ sign) - sign
    if isinstance(kind, types.Bool):
        return lambda h, a, b, c: bool(a & 1)
    if isinstance(kind, types.F32):
        return lambda h, a, b, c: struct.unpack("<f", (a & 0xFFFFFFFF).to_bytes(4, "little"))[0]
    if isinstance(kind, types.F64):
        return lambda h, a, b, c: struct.unpack("<d", a.to_bytes(8, "little"))[0]
    if isinstance(kind, types.Char):
        return lambda h, a, b, c: chr(a & 0xFFFFFFFF)
    if isinstance(kind, types.String | types.EnumType):
        return lambda h, a, b, c: bytes_at(b, a).decode() if a else ""
    if isinstance(kind, types.OwnType):
        return lambda h, a, b, c: h.table.pop(_representation(h, a))
    if isinstance(kind, types.BorrowType):
        return lambda h, a, b, c: h.table[_representation(h, a)]
    return _compound_lifter(kind)


def _representation(handles: Any, resource: int) -> int:
    """Return the number of a resource value. Call it once per value: it changes wasmtime's handle counts."""
    scratch = handles.scratch
    if _any_to_host(handles.context, resource, scratch.out_at):
        raise RuntimeError("a handle of a foreign resource type")
    host = scratch.out.value
    number: int = _host_rep(host)
    _host_delete(host)
    return number


def _read_words(pointer: int, count: int, words: int) -> tuple[int, ...]:
    return struct.unpack(f"<{words * count}Q", bytes_at(pointer, 8 * words * count)) if count else ()


def _compound_lifter(kind: types.ValType) -> Lift:
    if isinstance(kind, types.ListType):
        if kind._is_bytes():
            return lambda h, a, b, c: bytes_at(b, a * 32)[8::32] if a else b""
        element = lifter(kind.element)

        def lift_list(h: Any, a: int, b: int, c: int) -> Any:
            w = _read_words(b, a, 4)
            return [element(h, w[i + 1], w[i + 2], w[i + 3]) for i in range(0, 4 * a, 4)]

        return lift_list
    if isinstance(kind, types.TupleType | types.RecordType):
        # A tuple's elements are values of 4 words; a record's have their name (2 words) in front.
        record = isinstance(kind, types.RecordType)
        members = [t for _, t in kind.fields] if isinstance(kind, types.RecordType) else kind.elements
        lifts = [lifter(t) for t in members]
        words = 6 if record else 4
        first = 3 if record else 1
        positions = [(first + words * i, f) for i, f in enumerate(lifts)]
        layout = struct.Struct(f"<{words * len(lifts)}Q")
        members_at, unpack = block(layout.size), layout.unpack_from

        def lift_tuple(h: Any, a: int, b: int, c: int) -> Any:
            w = unpack(members_at(b))
            return tuple([f(h, w[i], w[i + 1], w[i + 2]) for i, f in positions])

        return lift_tuple
    if isinstance(kind, types.OptionType):
        payload = lifter(kind.payload)
        return lambda h, a, b, c: payload(h, *_unpack4(value_at(a))[1:]) if a else None
    if isinstance(kind, types.ResultType):
        ok = lifter(kind.ok) if kind.ok else None
        err = lifter(kind.err) if kind.err else None

        def lift_result(h: Any, a: int, b: int, c: int) -> Any:
            side = ok if a & 0xFF else err
            return ("ok" if a & 0xFF else "err", side(h, *_unpack4(value_at(b))[1:]) if side else None)

        return lift_result
    if isinstance(kind, types.VariantType):
        cases = {name: lifter(t) if t else None for name, t in kind.cases}

        def lift_variant(h: Any, a: int, b: int, c: int) -> Any:
            name = bytes_at(b, a).decode()
            case = cases[name]
            return (name, case(h, *_unpack4(value_at(c))[1:]) if case else None)

        return lift_variant
    if isinstance(kind, types.FlagsType):
        return lambda h, a, b, c: {
            bytes_at(w[1], w[0]).decode() for w in [_read_words(b + 16 * i, 1, 2) for i in range(a)]
        }
    raise TypeError(f"values of type {type(kind).__name__} do not cross the host boundary")


def _new_text(handles: Any, text: bytes) -> tuple[int, int]:
    scratch = handles.scratch
    _bytes_new(scratch.vec_at, len(text), text)
    return scratch.vec[0], scratch.vec[1]


def lowerer(kind: types.ValType) -> Lower:
    """Return `f(handles, value) -> 32 bytes` for a type; wasmtime owns the memory that the bytes point to.

    Raises TypeError for types that cannot cross the host boundary.
    """
    count_parts()
    t = type(kind)
    if t in _INTEGERS:
        tag, bits, _ = _INTEGERS[t]
        mask = (1 << bits) - 1
        return lambda h, v: _pack1(tag, v & mask)
    if isinstance(kind, types.Bool):
        return lambda h, v: _pack1(_BOOL, 1 if v else 0)
    if isinstance(kind, types.F32):
        return lambda h, v: _pack1(_F32, int.from_bytes(struct.pack("<f", v), "little"))
    if isinstance(kind, types.F64):
        return lambda h, v: _pack1(_F64, int.from_bytes(struct.pack("<d", v), "little"))
    if isinstance(kind, types.Char):
        return lambda h, v: _pack1(_CHAR, ord(v))
    if isinstance(kind, types.String | types.EnumType):
        tag = _STRING if isinstance(kind, types.String) else _ENUM
        return lambda h, v: _pack2(tag, *_new_text(h, v.encode()))
    if isinstance(kind, types.OwnType | types.BorrowType):
        return lower_resource
    return _compound_lowerer(kind)


def lower_resource(handles: Any, item: Any) -> bytes:
    """Encode a handle to a host object, whose class has its resource type in `TYPE`.

    Raises RuntimeError if the store does not know the type.
    """
    number, scratch = handles.insert(item), handles.scratch
    if number < _CACHED_NUMBERS:
        failed = _host_to_any(handles.context, _cached_host_resource(number, item.TYPE), scratch.out_at)
    else:
        host = _host_new(True, number, item.TYPE)
        failed = _host_to_any(handles.context, host, scratch.out_at)
        _host_delete(host)
    if failed:
        raise RuntimeError("a resource that this store does not know")
    return _pack1(_RESOURCE, scratch.out.value)


@cache
def _cached_host_resource(number: int, resource_type: int) -> int:
    """Return a host resource that any store can create handles of. Never released."""
    return int(_host_new(True, number, resource_type))


def lower_counted_text(handles: Any, text: bytes | int, size: int, count: int) -> bytes:
    """Encode a tuple of a string and a `u32`. The string is UTF-8, as bytes or at an address."""
    scratch = handles.scratch
    vec, vec_at = scratch.vec, scratch.vec_at
    (_bytes_new if isinstance(text, bytes) else _bytes_copy)(vec_at, size, text)
    values = _pack_counted_text(_STRING, vec[0], vec[1], _U32, count)
    _list_new(vec_at, 2)
    _pair_at(vec[1]).raw = values
    return _pack2(_TUPLE, 2, vec[1])


def _lower_bytes(handles: Any, data: bytes) -> bytes:
    count = len(data)
    if not count:
        return _pack2(_LIST, 0, 0)
    elements = bytearray(_U8_ELEMENT * count)
    elements[8::32] = data
    scratch = handles.scratch
    _list_new(scratch.vec_at, count)
    at = scratch.vec[1]
    write_at(at, bytes(elements))
    return _pack2(_LIST, count, at)


def _compound_lowerer(kind: types.ValType) -> Lower:
    if isinstance(kind, types.ListType):
        if kind._is_bytes():
            return _lower_bytes
        element = lowerer(kind.element)
        return lambda h, v: _lower_values(h, _LIST, [element(h, item) for item in v])
    if isinstance(kind, types.TupleType):
        members = [lowerer(t) for t in kind.elements]
        return lambda h, v: _lower_values(h, _TUPLE, [f(h, x) for f, x in zip(members, v, strict=True)])
    if isinstance(kind, types.RecordType):
        fields = [(name.encode(), lowerer(t)) for name, t in kind.fields]

        def lower_record(h: Any, v: Any) -> bytes:
            parts = []
            for (name, f), item in zip(fields, v, strict=True):
                parts += [struct.pack("<QQ", *_new_text(h, name)), f(h, item)]
            _record_new(h.scratch.vec_at, len(fields))
            at = h.scratch.vec[1]
            write_at(at, b"".join(parts))
            return _pack2(_RECORD, len(fields), at)

        return lower_record
    if isinstance(kind, types.OptionType):
        payload = lowerer(kind.payload)
        return lambda h, v: _pack1(_OPTION, 0 if v is None else _val_new(payload(h, v)))
    if isinstance(kind, types.ResultType):
        sides = {
            "ok": (1, lowerer(kind.ok) if kind.ok else None),
            "err": (0, lowerer(kind.err) if kind.err else None),
        }

        def lower_result(h: Any, v: Any) -> bytes:
            flag, f = sides[v[0]]
            return _pack2(_RESULT, flag, _val_new(f(h, v[1])) if f else 0)

        return lower_result
    if isinstance(kind, types.VariantType):
        cases = {name: lowerer(t) if t else None for name, t in kind.cases}

        def lower_variant(h: Any, v: Any) -> bytes:
            f = cases[v[0]]
            value = _val_new(f(h, v[1])) if f else 0
            return _pack3(_VARIANT, *_new_text(h, v[0].encode()), value)

        return lower_variant
    if isinstance(kind, types.FlagsType):

        def lower_flags(h: Any, v: Any) -> bytes:
            names = [struct.pack("<QQ", *_new_text(h, name.encode())) for name in sorted(v)]
            _flags_new(h.scratch.vec_at, len(names))
            at = h.scratch.vec[1]
            write_at(at, b"".join(names))
            return _pack2(_FLAGS, len(names), at)

        return lower_flags
    raise TypeError(f"values of type {type(kind).__name__} do not cross the host boundary")


def _lower_values(handles: Any, kind: int, values: list[bytes]) -> bytes:
    if not values:
        return _pack2(kind, 0, 0)
    scratch = handles.scratch
    _list_new(scratch.vec_at, len(values))
    at = scratch.vec[1]
    write_at(at, b"".join(values))
    return _pack2(kind, len(values), at)


def argument_lifter(function: types.FuncType) -> Callable[[Any, int], Any]:
    """Return `f(handles, address) -> arguments` for a function type."""
    lifts = [lifter(t) for _, t in function.params]
    count = len(lifts)
    if count == 0:
        return lambda h, at: ()
    if count == 1:
        only = lifts[0]

        def one(h: Any, at: int) -> Any:
            _, a, b, c = _unpack4(value_at(at))
            return (only(h, a, b, c),)

        return one
    values_at, unpack = block(VALUE_SIZE * count), struct.Struct(f"<{4 * count}Q").unpack_from
    places = [(4 * i + 1, f) for i, f in enumerate(lifts)]

    def many(h: Any, at: int) -> Any:
        w = unpack(values_at(at))
        return [f(h, w[i], w[i + 1], w[i + 2]) for i, f in places]

    return many


def result_encoder(
    function: types.FuncType, value: Lower | None = None
) -> tuple[Callable[[Any, Any], bytes | None], Callable[[Any, Any], bytes]]:
    """Return the encoders of a host function's value and of an `Err`.

    `value` replaces the encoder of the ok side if the type alone does not determine it. Raises TypeError when
    an `Err` is encoded for a function without an error type.
    """
    kind = function.result

    def unexpected(h: Any, value: Any) -> bytes:
        raise TypeError("this function has no error to return")

    if kind is None:
        return (lambda h, v: None), unexpected
    if not isinstance(kind, types.ResultType):
        return lowerer(kind), unexpected
    ok = value or (lowerer(kind.ok) if kind.ok else None)
    err = lowerer(kind.err) if kind.err else None
    return (
        (lambda h, v: _pack2(_RESULT, 1, _val_new(ok(h, v)))) if ok else (lambda h, v: _OK_UNIT),
        (lambda h, v: _pack2(_RESULT, 0, _val_new(err(h, v)))) if err else (lambda h, v: _ERR_UNIT),
    )
