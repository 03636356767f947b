"""Finds where a component calls the host with bytes: the slots of tables that the overlay fills anew.

Owns no changes: `overlay.py` makes them. Component builders have a main module call the host through a
table ("shim") where the call needs the main module's own memory, and fill the table with the host's
functions afterwards, by a module of nothing but imports and one element segment ("fixup"). That segment
tells which slot calls which function. Sources: wit-component's `encoding.rs`, WebAssembly core 5.5.
"""

from dataclasses import dataclass
from typing import TypeAlias

from engine.wasm.binary.reader import (
    BinaryReader,
    ComponentOutline,
    CoreModule,
    ImportedItem,
    InlineInstance,
    InstanceExport,
    LoweredFunction,
    ModuleInstance,
    UnsupportedBinary,
)

STREAMS = "wasi:io/streams"
_CORE_HEADER = b"\0asm\1\0\0\0"
_FUNCTION, _TABLE = 0, 1
_I32, _I64, _FUNCREF = 0x7F, 0x7E, 0x70
_UTF8 = 0
_ID, _TYPES, _IMPORTS, _ELEMENTS = 0, 1, 2, 9
Signature: TypeAlias = tuple[bytes, bytes]
WRITE: Signature = (bytes([_I32] * 4), b"")
READ: Signature = (bytes([_I32, _I64, _I32]), b"")
STREAM_METHODS: dict[bytes, tuple[str, Signature]] = {
    b"[method]output-stream.write": ("write", WRITE),
    b"[method]output-stream.blocking-write-and-flush": ("blocking-write-and-flush", WRITE),
    b"[method]input-stream.read": ("read", READ),
    b"[method]input-stream.blocking-read": ("blocking-read", READ),
}
"""The methods whose bytes cross as strings: what the overlay calls them, and their core signature."""


@dataclass(frozen=True, slots=True)
class TableSlot:
    """A slot that calls a method of `CALLS`. `streams` is the imported instance that has the method.

    Reads have the core function that gives them memory in `realloc`.
    """

    number: int
    call: str
    streams: int
    realloc: int | None


@dataclass(frozen=True, slots=True)
class PatchPoints:
    """All slots, the table that has them, and the memory that the calls work with: indices."""

    slots: tuple[TableSlot, ...]
    table: int | InstanceExport
    memory: int


@dataclass(frozen=True, slots=True)
class _Fixup:
    """`table` and `functions` are pairs of names; the function at a position goes to that slot."""

    table: tuple[bytes, bytes]
    functions: tuple[tuple[bytes, bytes, Signature], ...]
    first_slot: int


def find_patch_points(data: bytes, outline: ComponentOutline) -> PatchPoints | None:
    """Return the shape of a component whose outline this is, `None` when it is not understood."""
    found = []
    for instance in outline.spaces.get("core-instance", ()):
        if isinstance(instance, ModuleInstance) and instance.arguments:
            module = outline.definition("core-module", instance.module)
            fixup = _fixup(data, module) if isinstance(module, CoreModule) else None
            if fixup is not None:
                found.append((instance, fixup))
    if len(found) != 1:
        return None
    instance, fixup = found[0]
    table = _resolve(outline, instance, *fixup.table, "core-table")
    slots, memories = [], set()
    for position, (module_name, name, signature) in enumerate(fixup.functions):
        function = _resolve(outline, instance, module_name, name, "core-func")
        lowered = outline.definition("core-func", function) if isinstance(function, int) else None
        if isinstance(lowered, LoweredFunction):
            slot = _slot(outline, fixup.first_slot + position, lowered, signature)
            if slot is not None:
                slots.append(slot)
                memories.add(_memory(outline, lowered.memory))
    memory = memories.pop() if memories else None
    if table is None or memory is None or memories:
        return None
    return PatchPoints(tuple(slots), table, memory)


def _slot(
    outline: ComponentOutline, number: int, lowered: LoweredFunction, signature: Signature
) -> TableSlot | None:
    method = outline.definition("func", lowered.function)
    if not isinstance(method, InstanceExport) or method.name not in STREAM_METHODS:
        return None
    streams = outline.definition("instance", method.instance)
    call, expected = STREAM_METHODS[method.name]
    if not isinstance(streams, ImportedItem) or streams.name.partition("@")[0] != STREAMS:
        return None
    if signature != expected or lowered.encoding != _UTF8 or lowered.memory is None:
        return None
    if expected == READ and lowered.realloc is None:
        return None
    return TableSlot(number, call, method.instance, lowered.realloc if expected == READ else None)


def _memory(outline: ComponentOutline, index: int | None) -> int | None:
    """Return the first index of a memory that may have several."""
    origin = outline.definition("core-memory", index)
    same = [i for i in outline.memories if outline.definition("core-memory", i) == origin]
    return same[0] if origin is not None and same else None


def _resolve(
    outline: ComponentOutline, instance: ModuleInstance, module: bytes, name: bytes, space: str
) -> int | InstanceExport | None:
    """Return the index of what a module was given for an import, or where it would have to be taken from."""
    given = instance.arguments.get(module)
    origin = outline.definition("core-instance", given)
    if isinstance(origin, InlineInstance):
        sort, index = origin.exports.get(name, ("", 0))
        return index if sort == space else None
    return InstanceExport(given, name) if given is not None and origin is not None else None


def _fixup(data: bytes, module: CoreModule) -> _Fixup | None:
    try:
        return _read_fixup(BinaryReader(data[module.start : module.end]))
    except UnsupportedBinary:
        return None


def _read_fixup(reader: BinaryReader) -> _Fixup | None:
    """Return what a core module fills a table with, `None` for a module that does anything else."""
    size = len(reader.data)
    if reader.data[:8] != _CORE_HEADER:
        raise UnsupportedBinary("not a core module")
    reader.at = 8
    signatures: list[Signature] = []
    functions: list[tuple[bytes, bytes, Signature]] = []
    tables: list[tuple[bytes, bytes]] = []
    elements: tuple[int, list[int]] | None = None
    while reader.at < size:
        section, length = reader.byte(), reader.uleb()
        end = reader.at + length
        if section == _TYPES:
            signatures = [_signature(reader) for _ in range(reader.uleb())]
        elif section == _IMPORTS:
            for _ in range(reader.uleb()):
                module, name, kind = reader.name(), reader.name(), reader.byte()
                if kind == _FUNCTION:
                    functions.append((module, name, _at(signatures, reader.uleb())))
                elif kind == _TABLE:
                    tables.append((module, name))
                    _table(reader)
                else:
                    return None
        elif section == _ELEMENTS:
            elements = _elements(reader)
        elif section != _ID:
            return None
        if section != _ID and reader.at != end:
            raise UnsupportedBinary("a section of another length than its items")
        reader.at = end
    if len(tables) != 1 or elements is None:
        return None
    first, members = elements
    return _Fixup(tables[0], tuple(_at(functions, member) for member in members), first)


def _at(items: list, index: int):  # type: ignore[no-untyped-def, type-arg]
    if index >= len(items):
        raise UnsupportedBinary("an index beyond the last item")
    return items[index]


def _signature(reader: BinaryReader) -> Signature:
    if reader.byte() != 0x60:
        raise UnsupportedBinary("a type that is no function's")
    return reader.name(), reader.name()


def _table(reader: BinaryReader) -> None:
    if reader.byte() != _FUNCREF:
        raise UnsupportedBinary("a table of something else")
    bounded = reader.byte()
    reader.uleb()
    if bounded > 1:
        raise UnsupportedBinary("limits of another kind")
    if bounded:
        reader.uleb()


def _elements(reader: BinaryReader) -> tuple[int, list[int]] | None:
    """Return the first slot and the functions of the one segment: active, of table 0, at a constant."""
    if reader.uleb() != 1 or reader.uleb() != 0 or reader.byte() != 0x41:
        return None
    first = reader.uleb()
    if first > 63 or reader.byte() != 0x0B:  # a signed number: the first 64 read alike
        return None
    return first, [reader.uleb() for _ in range(reader.uleb())]
