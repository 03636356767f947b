"""Analysis that finds the table slots through which a component calls stream methods.

Component builders let a main module call the host through a table ("shim") if the call needs the main
module's own memory. A second module ("fixup") fills the table with the host's functions; it has only imports
and one element segment. That segment shows which slot calls which function. Sources: wit-component's
`encoding.rs`, WebAssembly core 5.5.
"""

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from engine.wasm.binary.reader import (
    ComponentOutline,
    CoreModule,
    ImportedItem,
    InlineInstance,
    InstanceExport,
    LoweredFunction,
    ModuleInstance,
)
from engine.wasm_binary import BinaryReader, UnsupportedBinary, read_sections

STREAMS = "wasi:io/streams"
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
"""The methods whose bytes cross as strings: short name and core signature."""


@dataclass(frozen=True, slots=True)
class TableSlot:
    """A table slot that calls one of STREAM_METHODS. `streams` is the imported instance of the method.

    `realloc` is the core allocation function of a read method.
    """

    number: int
    call: str
    streams: int
    realloc: int | None


@dataclass(frozen=True, slots=True)
class PatchPoints:
    """All slots, their table and the memory used by the calls; memory and table are indices."""

    slots: tuple[TableSlot, ...]
    table: int | InstanceExport
    memory: int


@dataclass(frozen=True, slots=True)
class _Fixup:
    """Content of a fixup module: import names of its table, and the functions from the first slot on."""

    table: tuple[bytes, bytes]
    functions: tuple[tuple[bytes, bytes, Signature], ...]
    first_slot: int


def find_patch_points(data: bytes, outline: ComponentOutline) -> PatchPoints | None:
    """Return the patch points of a component, `None` if its structure is unknown."""
    fixups = []
    fixup_of = cache(lambda module: _fixup(data, module))  # A module may have many instances.
    for instance in outline.spaces.get("core-instance", ()):
        if isinstance(instance, ModuleInstance) and instance.arguments:
            module = outline.definition("core-module", instance.module)
            fixup = fixup_of(module) if isinstance(module, CoreModule) else None
            if fixup is not None:
                fixups.append((instance, fixup))
    if len(fixups) != 1:
        return None
    instance, fixup = fixups[0]
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
    """Return the lowest index of a memory that may have several indices."""
    origin = outline.definition("core-memory", index)
    same = [i for i in outline.memories if outline.definition("core-memory", i) == origin]
    return same[0] if origin is not None and same else None


def _resolve(
    outline: ComponentOutline, instance: ModuleInstance, module: bytes, name: bytes, space: str
) -> int | InstanceExport | None:
    """Return the index of a module's import argument, or the export to alias for it."""
    argument = instance.arguments.get(module)
    origin = outline.definition("core-instance", argument)
    if isinstance(origin, InlineInstance):
        sort, index = origin.exports.get(name, ("", 0))
        return index if sort == space else None
    return InstanceExport(argument, name) if argument is not None and origin is not None else None


def _fixup(data: bytes, module: CoreModule) -> _Fixup | None:
    try:
        return _read_fixup(data[module.start : module.end])
    except UnsupportedBinary:
        return None


def _read_fixup(module: bytes) -> _Fixup | None:
    """Return the table content of a core module, `None` for a module that does anything else."""
    signatures: list[Signature] = []
    functions: list[tuple[bytes, bytes, Signature]] = []
    tables: list[tuple[bytes, bytes]] = []
    elements: tuple[int, list[int]] | None = None
    for section, body in read_sections(module):
        reader = BinaryReader(body)
        if section == _ID:
            continue
        if section == _TYPES:
            signatures = [_signature(reader) for _ in range(reader.uleb())]
        elif section == _IMPORTS:
            for _ in range(reader.uleb()):
                module_name, name, kind = reader.name(), reader.name(), reader.byte()
                if kind == _FUNCTION:
                    functions.append((module_name, name, _at(signatures, reader.uleb())))
                elif kind == _TABLE:
                    tables.append((module_name, name))
                    _table(reader)
                else:
                    return None
        elif section == _ELEMENTS:
            elements = _elements(reader)
        else:
            return None
        if reader.at != len(body):
            raise UnsupportedBinary("section length differs from its items")
    if len(tables) != 1 or elements is None:
        return None
    first, members = elements
    return _Fixup(tables[0], tuple(_at(functions, member) for member in members), first)


def _at(items: list, index: int):  # type: ignore[no-untyped-def, type-arg]
    if index >= len(items):
        raise UnsupportedBinary("index out of range")
    return items[index]


def _signature(reader: BinaryReader) -> Signature:
    if reader.byte() != 0x60:
        raise UnsupportedBinary("not a function type")
    return reader.name(), reader.name()


def _table(reader: BinaryReader) -> None:
    if reader.byte() != _FUNCREF:
        raise UnsupportedBinary("not a table of functions")
    bounded = reader.byte()
    reader.uleb()
    if bounded > 1:
        raise UnsupportedBinary("unknown kind of limits")
    if bounded:
        reader.uleb()


def _elements(reader: BinaryReader) -> tuple[int, list[int]] | None:
    """Return the first slot and the functions of the only segment: active, table 0, constant offset."""
    if reader.uleb() != 1 or reader.uleb() != 0 or reader.byte() != 0x41:
        return None
    first = reader.uleb()
    if first > 63 or reader.byte() != 0x0B:  # signed LEB128; equal to unsigned below 64
        return None
    return first, [reader.uleb() for _ in range(reader.uleb())]
