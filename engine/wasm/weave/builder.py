"""Builder of component binaries, section by section, that returns the index of each item.

Section numbers and encodings: the component model's `Binary.md`. At its end are the functions that a woven
component imports from the host, and its export: `engine/wasm/host/` implements them, and
`engine/wasm/guest_side/` calls them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.wasm_binary import COMPONENT_HEADER, CORE_MODULE, name, section, uleb, vector

_CORE_INSTANCE, _ALIAS, _TYPE, _CANONICAL, _IMPORT, _EXPORT = 2, 6, 7, 8, 10, 11
CORE_SORTS = {"core-func": 0, "core-table": 1, "core-memory": 2, "core-global": 3, "core-instance": 0x12}
_PRIMITIVES = {"u16": b"\x7b", "u32": b"\x79", "u64": b"\x77", "string": b"\x73"}
_COMPOUND = {"tuple": 0x6F, "option": 0x6B}
_FUNCTION, _INSTANCE_TYPE = 1, 5
_UTF8, _MEMORY, _REALLOC = b"\0", b"\x03", b"\x04"

CoreItem = tuple[str, int]
"""Index space and index of a core item."""
ValueType = str | tuple["ValueType", ...]
"""A primitive type by name, or `("tuple", type, ...)`, or `("option", type)`."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The type of a component function; `result` is None for a function without a result."""

    parameters: tuple[ValueType, ...] = ()
    result: ValueType | None = None


class _TypeDefinitions:
    """Definitions of types in one scope; each has the next index."""

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def add(self, definition: bytes) -> int:
        self.items.append(definition)
        return len(self.items) - 1

    def reference(self, kind: ValueType) -> bytes:
        """Return the encoding of a type at its use, after its definition if it needs one."""
        if isinstance(kind, str):
            return _PRIMITIVES[kind]
        name, *members = kind
        assert isinstance(name, str)
        inner = [self.reference(member) for member in members]
        body = vector(inner) if name == "tuple" else inner[0]
        return uleb(self.add(bytes([_COMPOUND[name]]) + body))

    def function(self, signature: Signature) -> int:
        """Define a function type; its parameters are named by their positions."""
        parameters = [
            name(f"p{i}".encode()) + self.reference(kind) for i, kind in enumerate(signature.parameters)
        ]
        result = b"\x01\0" if signature.result is None else b"\0" + self.reference(signature.result)
        return self.add(b"\x40" + vector(parameters) + result)


class ComponentBuilder:
    """The bytes of a component under construction, in `out`."""

    def __init__(self) -> None:
        self.out = bytearray(COMPONENT_HEADER)
        self._sizes: dict[str, int] = {}

    def _add(self, kind: int, item: bytes, space: str) -> int:
        self.out += section(kind, vector([item]))
        return self._allocate(space)

    def _allocate(self, space: str) -> int:
        index = self._sizes.get(space, 0)
        self._sizes[space] = index + 1
        return index

    def module(self, binary: bytes) -> int:
        """Add a core module."""
        self.out += section(CORE_MODULE, binary)
        return self._allocate("core-module")

    def instance(self, module: int, arguments: Mapping[bytes, int]) -> int:
        """Instantiate a core module; `arguments` are core instances by name."""
        items = [name(key) + b"\x12" + uleb(value) for key, value in arguments.items()]
        return self._add(_CORE_INSTANCE, b"\0" + uleb(module) + vector(items), "core-instance")

    def bundle(self, items: Mapping[bytes, CoreItem]) -> int:
        """Add a core instance of existing items."""
        exports = [
            name(key) + bytes([CORE_SORTS[space]]) + uleb(index) for key, (space, index) in items.items()
        ]
        return self._add(_CORE_INSTANCE, b"\x01" + vector(exports), "core-instance")

    def core_export(self, space: str, instance: int, export: bytes) -> int:
        """Add an alias of an export of a core instance."""
        sort = b"\0" + bytes([CORE_SORTS[space]])
        return self._add(_ALIAS, sort + b"\x01" + uleb(instance) + name(export), space)

    def import_instance(self, interface: str, functions: Mapping[str, Signature]) -> int:
        """Import an interface of functions."""
        types = _TypeDefinitions()
        exported = [(function.encode(), types.function(kind)) for function, kind in functions.items()]
        declarations = [b"\x01" + each for each in types.items] + [
            b"\x04\0" + name(function) + bytes([_FUNCTION]) + uleb(kind) for function, kind in exported
        ]
        index = self._add(_TYPE, b"\x42" + vector(declarations), "type")
        item = b"\0" + name(interface.encode()) + bytes([_INSTANCE_TYPE]) + uleb(index)
        return self._add(_IMPORT, item, "instance")

    def lower(self, instance: int, function: str, memory: int, realloc: int | None = None) -> int:
        """Lower a function of an imported instance to a core function."""
        alias = b"\x01\0" + uleb(instance) + name(function.encode())
        index = self._add(_ALIAS, alias, "func")
        options = [_UTF8, _MEMORY + uleb(memory)]
        if realloc is not None:
            options.append(_REALLOC + uleb(realloc))
        return self._add(_CANONICAL, b"\x01\0" + uleb(index) + vector(options), "core-func")

    def export(self, function: str, core: int, signature: Signature, memory: int, realloc: int) -> None:
        """Lift a core function and export it."""
        types = _TypeDefinitions()
        types.function(signature)
        indices = [self._add(_TYPE, each, "type") for each in types.items]
        assert len(indices) == 1, "a signature of primitive types"
        options = vector([_UTF8, _MEMORY + uleb(memory), _REALLOC + uleb(realloc)])
        lifted = self._add(_CANONICAL, b"\0\0" + uleb(core) + options + uleb(indices[0]), "func")
        item = b"\0" + name(function.encode()) + bytes([_FUNCTION]) + uleb(lifted) + b"\0"
        self._add(_EXPORT, item, "func")


HOST_INTERFACE = "svc:run/host"
RUN = "svc-run"
RUN_SIGNATURE = Signature(("string",), "u32")
_STATES = ("tuple", "u64", "string")
HOST: Mapping[str, Signature] = {
    "begin": Signature((), "string"),
    "send": Signature(("u32", "u32", "string", "string", "u32"), "u64"),
    "abort": Signature(("u32", "string")),
    "refuse": Signature(("string",)),
    "read": Signature(("u32", "u32"), ("tuple", "string", "u32", "u32")),
    "error": Signature(("u32",), "string"),
    "ready": Signature(("string",), _STATES),
    "wait": Signature(("string", "u64"), _STATES),
    "now": Signature((), "u64"),
    "fetch": Signature(("string",), "string"),
    "response": Signature(("u32",), "string"),
    "close": Signature(("u32", "u32")),
    "print": Signature(("u32", "string", "u32")),
    "exit": Signature(("u32",)),
    "trap": Signature(("string",)),
    "warn": Signature(("string",)),
}
"""Functions of `svc:run/host`, by name."""
DIRECT_INTERFACES: Mapping[str, tuple[str, Mapping[str, Signature]]] = {
    "svc:doors/call": (
        "0.1.0",
        dict.fromkeys(
            ("ask", "start"),
            Signature(("string", "string", "string"), ("option", ("tuple", "u16", "string"))),
        ),
    ),
    "svc:dev/script": ("0.1.0", {"source": Signature((), "string")}),
}
"""Interfaces that guests import and the host implements itself: version, and functions by name."""
