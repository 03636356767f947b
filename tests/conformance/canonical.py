"""The canonical ABI of the component model, for guests generated from Python.

It defines the memory layout of values and their flattening into core values. Source: `CanonicalABI.md` of the
component model, "Alignment", "Element Size", "Flattening", "Loading", "Storing".

Values in Python: numbers, `bool`, `str`, `bytes` for `list<u8>`; lists, tuples (also for records);
an option is the value or `None`; a variant is its case's name or `(name, payload)`, a result `("ok", value)`
or `("err", value)`; a handle is a `Place` as an argument and `HANDLE` as a result.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.wit import (
    Borrow,
    List,
    Option,
    Prim,
    Record,
    Resource,
    Result,
    Tuple,
    Type,
    Variant,
    resolve,
)

HANDLE = "a handle"
_SIZES = {"bool": 1, "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8}
_FORMATS = {"bool": "<?", "u8": "<B", "u16": "<H", "u32": "<I", "s32": "<i", "u64": "<Q"}


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a guest's memory and the type of the value there."""

    at: int
    type: Type

    def __getitem__(self, name: str) -> "Place":
        """Return where the payload of a case lies ("ok", "some", a variant's case)."""
        cases = _cases(resolve(self.type))
        payload = dict(cases)[name]
        assert payload is not None, name
        return Place(self.at + _payload_offset(cases), payload)

    def handle(self) -> "Place":
        """Return the position of the handle inside a result or option that contains one."""
        kind = resolve(self.type)
        if isinstance(kind, Result):
            return self["ok"].handle()
        if isinstance(kind, Option):
            return self["some"].handle()
        assert isinstance(kind, Resource | Borrow), f"no handle in {kind}"
        return self


@dataclass(slots=True)
class Static:
    """A guest's memory before the guest runs, and the stores that the guest must do itself."""

    end: int
    data: list[tuple[int, bytes]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def reserve(self, size: int, alignment: int = 8) -> int:
        """Reserve bytes; return their address."""
        at = _aligned(self.end, alignment)
        self.end = at + size
        return at

    def place(self, content: bytes, alignment: int = 1) -> int:
        """Store bytes; return their address."""
        at = self.reserve(len(content), alignment)
        if content:
            self.data.append((at, content))
        return at


def _aligned(at: int, alignment: int) -> int:
    return (at + alignment - 1) // alignment * alignment


def _cases(kind: Type) -> tuple[tuple[str, Type | None], ...]:
    if isinstance(kind, Option):
        return (("none", None), ("some", kind.payload))
    if isinstance(kind, Result):
        return (("ok", kind.ok), ("err", kind.err))
    assert isinstance(kind, Variant), kind
    return kind.cases


def _members(kind: Type) -> list[Type] | None:
    if isinstance(kind, Record):
        return [member for _, member in kind.fields]
    return list(kind.members) if isinstance(kind, Tuple) else None


def _discriminant(cases: tuple[Any, ...]) -> int:
    return 1 if len(cases) <= 256 else 2


def _payload_offset(cases: tuple[tuple[str, Type | None], ...]) -> int:
    alignment = max((layout(payload)[1] for _, payload in cases if payload), default=1)
    return _aligned(_discriminant(cases), alignment)


def layout(kind: Type) -> tuple[int, int]:
    """Return size and alignment in bytes."""
    kind = resolve(kind)
    if isinstance(kind, Prim) and kind.name != "string":
        return _SIZES[kind.name], _SIZES[kind.name]
    if isinstance(kind, Prim | List):
        return 8, 4
    if isinstance(kind, Resource | Borrow):
        return 4, 4
    members = _members(kind)
    if members is not None:
        at, alignment = 0, 1
        for size, own in map(layout, members):
            at, alignment = _aligned(at, own) + size, max(alignment, own)
        return _aligned(at, alignment), alignment
    cases = _cases(kind)
    payloads = [layout(payload) for _, payload in cases if payload]
    alignment = max([_discriminant(cases), *(own for _, own in payloads)])
    size = _payload_offset(cases) + max((size for size, _ in payloads), default=0)
    return _aligned(size, alignment), alignment


def flat(kind: Type) -> list[str]:
    """Return the core types of a flattened value."""
    kind = resolve(kind)
    if isinstance(kind, Prim):
        return {"u64": ["i64"], "string": ["i32", "i32"]}.get(kind.name, ["i32"])
    if isinstance(kind, List):
        return ["i32", "i32"]
    if isinstance(kind, Resource | Borrow):
        return ["i32"]
    members = _members(kind)
    if members is not None:
        return [core for member in members for core in flat(member)]
    joined: list[str] = []
    for _, payload in _cases(kind):
        for i, core in enumerate(flat(payload) if payload else ()):
            if i == len(joined):
                joined.append(core)
            elif joined[i] != core:
                joined[i] = "i64"
    return ["i32", *joined]


def _case(kind: Type, value: Any) -> tuple[int, Type | None, Any]:
    """Return number, payload type and payload of a variant value."""
    cases = _cases(kind)
    if isinstance(kind, Option):
        name, payload = ("none", None) if value is None else ("some", value)
    else:
        name, payload = value if isinstance(value, tuple) else (value, None)
    number = [case for case, _ in cases].index(name)
    return number, cases[number][1], payload


def flatten(kind: Type, value: Any, static: Static) -> list[str]:
    """Return expressions, in component text, for the core values of a value."""
    kind = resolve(kind)
    if isinstance(kind, Resource | Borrow):
        return [f"(i32.load (i32.const {value.handle().at}))"]
    if isinstance(kind, Prim) and kind.name != "string":
        return [f"({flat(kind)[0]}.const {int(value)})"]
    if isinstance(kind, Prim | List):
        return [f"(i32.const {number})" for number in _sequence(kind, value, static)]
    members = _members(kind)
    if members is not None:
        pairs = zip(members, value, strict=True)
        return [core for member, item in pairs for core in flatten(member, item, static)]
    number, payload_type, payload = _case(kind, value)
    cores = [f"(i32.const {number})"]
    flattened = flatten(payload_type, payload, static) if payload_type else []
    own = flat(payload_type) if payload_type else []
    for i, flat_type in enumerate(flat(kind)[1:]):
        if i >= len(flattened):
            cores.append(f"({flat_type}.const 0)")
        elif own[i] == flat_type:
            cores.append(flattened[i])
        else:
            cores.append(f"(i64.extend_i32_u {flattened[i]})")
    return cores


def _sequence(kind: Prim | List, value: Any, static: Static) -> tuple[int, int]:
    """Store a string or list; return its address and length."""
    if isinstance(kind, Prim) or resolve(kind.element) == Prim("u8"):
        content = value.encode() if isinstance(value, str) else bytes(value)
        return static.place(content), len(content)
    size, alignment = layout(kind.element)
    base = static.reserve(size * len(value), alignment)
    for i, item in enumerate(value):
        store(kind.element, item, base + size * i, static)
    return base, len(value)


def store(kind: Type, value: Any, at: int, static: Static) -> None:
    """Store a value at an address before the guest runs; the guest itself stores handles."""
    kind = resolve(kind)
    if isinstance(kind, Resource | Borrow):
        static.code.append(f"(i32.store (i32.const {at}) (i32.load (i32.const {value.handle().at})))")
    elif isinstance(kind, Prim) and kind.name != "string":
        static.data.append((at, struct.pack(_FORMATS[kind.name], value)))
    elif isinstance(kind, Prim | List):
        static.data.append((at, struct.pack("<II", *_sequence(kind, value, static))))
    elif (members := _members(kind)) is not None:
        for member, item in zip(members, value, strict=True):
            size, alignment = layout(member)
            at = _aligned(at, alignment)
            store(member, item, at, static)
            at += size
    else:
        number, payload_type, payload = _case(kind, value)
        static.data.append((at, number.to_bytes(_discriminant(_cases(kind)), "little")))
        if payload_type:
            store(payload_type, payload, at + _payload_offset(_cases(kind)), static)


def load(kind: Type, at: int, read: Callable[[int, int], bytes]) -> Any:
    """Return the value at an address; `read(address, size)` reads the guest's memory."""
    kind = resolve(kind)
    if isinstance(kind, Resource | Borrow):
        return HANDLE
    if isinstance(kind, Prim) and kind.name != "string":
        return struct.unpack(_FORMATS[kind.name], read(at, _SIZES[kind.name]))[0]
    if isinstance(kind, Prim | List):
        base, count = struct.unpack("<II", read(at, 8))
        if isinstance(kind, Prim):
            return read(base, count).decode()
        if resolve(kind.element) == Prim("u8"):
            return read(base, count)
        size, _ = layout(kind.element)
        return [load(kind.element, base + size * i, read) for i in range(count)]
    members = _members(kind)
    if members is not None:
        result = []
        for member in members:
            size, alignment = layout(member)
            at = _aligned(at, alignment)
            result.append(load(member, at, read))
            at += size
        return tuple(result)
    cases = _cases(kind)
    name, payload = cases[int.from_bytes(read(at, _discriminant(cases)), "little")]
    value = load(payload, at + _payload_offset(cases), read) if payload else None
    if isinstance(kind, Option):
        return value
    return (name, value) if payload or isinstance(kind, Result) else name
