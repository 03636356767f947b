"""Functions and memories that a core module imports and exports."""

from dataclasses import dataclass

from engine.wasm.binary.memory_limits import read_memories
from engine.wasm_binary import (
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    name,
    read_sections,
    replace_sections,
    uleb,
)

_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS = 1, 2, 3, 7
_AFTER_EXPORTS = (8, 9, 10, 11, 12)
_FUNCTION_TYPE, _FUNCTION, _TABLE, _MEMORY, _GLOBAL = 0x60, 0, 1, 2, 3
_NAMES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}


@dataclass(frozen=True, slots=True)
class CoreSignature:
    """A core function type: encoded value types."""

    parameters: bytes
    results: bytes

    def text(self) -> str:
        """Return the type in the text format. Raises UnsupportedBinary for types other than numbers."""
        try:
            return " ".join(
                f"({kind} {' '.join(_NAMES[each] for each in types)})"
                for kind, types in (("param", self.parameters), ("result", self.results))
            )
        except KeyError as error:
            raise UnsupportedBinary(f"value type {error.args[0]}") from None


@dataclass(frozen=True, slots=True)
class CoreFunctions:
    """The functions that a module imports, by module and name, and exports, by name.

    `memory_pages` is the initial size of an imported memory, 0 for none. `imported_memories` counts them.
    `memory_exports` are the names of exported memories by index.
    """

    imports: dict[tuple[bytes, bytes], CoreSignature]
    exports: dict[bytes, CoreSignature]
    memory_pages: int
    imported_memories: int
    memory_exports: dict[int, bytes]


def read_functions(module: bytes) -> CoreFunctions:
    """Read the types of a module's functions. Raises UnsupportedBinary."""
    sections = dict(read_sections(module))
    types = _read_types(BinaryReader(sections.get(_TYPES, b"\0")))
    imports: dict[tuple[bytes, bytes], CoreSignature] = {}
    functions, memory_pages, imported_memories = [], 0, 0
    reader = BinaryReader(sections.get(_IMPORTS, b"\0"))
    for _ in range(reader.uleb()):
        key = reader.name(), reader.name()
        kind = reader.byte()
        if kind == _FUNCTION:
            imports[key] = _item(types, reader.uleb())
            functions.append(imports[key])
        else:
            size = _read_size(reader, kind)
            memory_pages = size if kind == _MEMORY else memory_pages
            imported_memories += kind == _MEMORY
    reader = BinaryReader(sections.get(_FUNCTIONS, b"\0"))
    functions += (_item(types, reader.uleb()) for _ in range(reader.uleb()))
    exports: dict[bytes, CoreSignature] = {}
    memory_exports: dict[int, bytes] = {}
    reader = BinaryReader(sections.get(_EXPORTS, b"\0"))
    for _ in range(reader.uleb()):
        export, kind, index = reader.name(), reader.byte(), reader.uleb()
        if kind == _FUNCTION:
            exports[export] = _item(functions, index)
        elif kind == _MEMORY:
            memory_exports[index] = export
    return CoreFunctions(imports, exports, memory_pages, imported_memories, memory_exports)


def export_memories(module: bytes, functions: CoreFunctions) -> tuple[bytes, dict[bytes, str]]:
    """Return the module with an export for each memory that it defines, and their index types by name.

    A module that exports them is unchanged. Raises UnsupportedBinary.
    """
    memories = dict(enumerate(read_memories(module), functions.imported_memories))
    names = dict(functions.memory_exports)
    for index in memories.keys() - names.keys():
        sections = list(read_sections(module))
        if _EXPORTS not in dict(sections):
            at = next((i for i, (kind, _) in enumerate(sections) if kind in _AFTER_EXPORTS), len(sections))
            sections.insert(at, (_EXPORTS, b"\0"))
        reader = BinaryReader(dict(sections)[_EXPORTS])
        count, body = reader.uleb() + 1, reader.data[reader.at :]
        names[index] = b"memory"
        while names[index] in body:
            names[index] += b"-"
        added = name(names[index]) + bytes([_MEMORY]) + uleb(index)
        module = replace_sections(MODULE_HEADER, sections, {_EXPORTS: uleb(count) + body + added})
    return module, {names[index]: memory.index_type for index, memory in memories.items()}


def _item(items: list[CoreSignature], index: int) -> CoreSignature:
    if index >= len(items):
        raise UnsupportedBinary("an index beyond its space")
    return items[index]


def _read_types(reader: BinaryReader) -> list[CoreSignature]:
    types = []
    for _ in range(reader.uleb()):
        if reader.byte() != _FUNCTION_TYPE:
            raise UnsupportedBinary("a type that is not a function type")
        types.append(CoreSignature(reader.name(), reader.name()))
    return types


def _read_size(reader: BinaryReader, kind: int) -> int:
    """Read the type of an imported table, memory or global, and return its initial size, 0 for a global."""
    if kind in (_TABLE, _GLOBAL):
        reader.byte()
    if kind == _GLOBAL:
        reader.byte()
        return 0
    if kind not in (_TABLE, _MEMORY):
        raise UnsupportedBinary(f"import of kind {kind}")
    flags, size = reader.byte(), reader.uleb()
    if flags & 1:
        reader.uleb()
    return size
