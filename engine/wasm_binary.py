"""Reader and encoders of WebAssembly binaries: numbers, names, vectors and sections (core and component)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

MODULE_HEADER = b"\0asm\x01\0\0\0"
COMPONENT_HEADER = b"\0asm\x0d\0\x01\0"
CORE_MODULE = 1
NESTED_COMPONENT = 4
"""Section number of a core module in a component."""
MAX_SECTIONS = 10_000
TYPES, IMPORTS, FUNCTIONS, MEMORIES, EXPORTS, CODE, DATA, DATA_COUNT = 1, 2, 3, 5, 7, 10, 11, 12
"""Section numbers of a core module."""
FUNCTION, TABLE, MEMORY, GLOBAL = 0, 1, 2, 3
"""Kinds of imports and exports."""
I32_CONST, END = 0x41, 0x0B
_FUNCTION_TYPE = 0x60
_NUMBERS = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}


class UnsupportedBinary(Exception):
    """The binary is truncated, is of another kind, or uses an unsupported form."""


class BinaryReader:
    """Reads numbers and names of a binary, starting at `at`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Read a byte. Raises UnsupportedBinary at the end."""
        if self.at >= len(self.data):
            raise UnsupportedBinary("truncated")
        value = self.data[self.at]
        self.at += 1
        return value

    def uleb(self) -> int:
        """Read an unsigned LEB128 number. Raises UnsupportedBinary above 35 bits."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise UnsupportedBinary("number of more than 35 bits")

    def sleb(self) -> int:
        """Read a signed LEB128 number. Raises UnsupportedBinary above 35 bits."""
        begin, value = self.at, self.uleb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def name(self) -> bytes:
        """Read a length-prefixed byte string. Raises UnsupportedBinary if truncated."""
        length = self.uleb()
        if self.at + length > len(self.data):
            raise UnsupportedBinary("truncated name")
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self) -> str:
        """Read a name as text. Raises UnsupportedBinary if it is not UTF-8."""
        try:
            return self.name().decode()
        except UnicodeDecodeError as error:
            raise UnsupportedBinary("name is not UTF-8") from error


@dataclass(frozen=True, slots=True)
class CoreSignature:
    """A core function type: encoded value types."""

    parameters: bytes
    results: bytes

    def text(self) -> str:
        """Return the type in the text format. Raises UnsupportedBinary for types other than numbers."""
        try:
            return " ".join(
                f"({kind} {' '.join(_NUMBERS[each] for each in types)})"
                for kind, types in (("param", self.parameters), ("result", self.results))
            )
        except KeyError as error:
            raise UnsupportedBinary(f"value type {error.args[0]}") from None


def read_types(body: bytes) -> list[CoreSignature]:
    """Read a type section. Raises UnsupportedBinary for types of anything but functions."""
    reader, types = BinaryReader(body), []
    for _ in range(reader.uleb()):
        if reader.byte() != _FUNCTION_TYPE:
            raise UnsupportedBinary("a type that is not a function type")
        types.append(CoreSignature(reader.name(), reader.name()))
    return types


def signature_at(types: Sequence[CoreSignature], index: int) -> CoreSignature:
    """Return the type at an index. Raises UnsupportedBinary beyond the last one."""
    if index >= len(types):
        raise UnsupportedBinary("an index beyond its space")
    return types[index]


def read_exports(body: bytes) -> dict[bytes, tuple[int, int]]:
    """Read an export section: kind and index by name."""
    reader = BinaryReader(body)
    return {reader.name(): (reader.byte(), reader.uleb()) for _ in range(reader.uleb())}


def read_sections(binary: bytes, header: bytes = MODULE_HEADER) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each section. Raises UnsupportedBinary, also for another header."""
    if not binary.startswith(header):
        raise UnsupportedBinary("not a core module" if header == MODULE_HEADER else "not a component")
    reader = BinaryReader(binary, len(header))
    for _ in range(MAX_SECTIONS):
        if reader.at == len(binary):
            return
        yield reader.byte(), reader.name()
    raise UnsupportedBinary(f"more than {MAX_SECTIONS} sections")


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
    types = read_types(sections.get(TYPES, b"\0"))
    imports: dict[tuple[bytes, bytes], CoreSignature] = {}
    functions, memory_pages, imported_memories = [], 0, 0
    reader = BinaryReader(sections.get(IMPORTS, b"\0"))
    for _ in range(reader.uleb()):
        key = reader.name(), reader.name()
        kind = reader.byte()
        if kind == FUNCTION:
            imports[key] = signature_at(types, reader.uleb())
            functions.append(imports[key])
        else:
            size = _read_size(reader, kind)
            memory_pages = size if kind == MEMORY else memory_pages
            imported_memories += kind == MEMORY
    reader = BinaryReader(sections.get(FUNCTIONS, b"\0"))
    functions += (signature_at(types, reader.uleb()) for _ in range(reader.uleb()))
    exports = read_exports(sections.get(EXPORTS, b"\0"))
    return CoreFunctions(
        imports,
        {export: signature_at(functions, at) for export, (kind, at) in exports.items() if kind == FUNCTION},
        memory_pages,
        imported_memories,
        {at: export for export, (kind, at) in exports.items() if kind == MEMORY},
    )


def _read_size(reader: BinaryReader, kind: int) -> int:
    """Read the type of an imported table, memory or global, and return its initial size, 0 for a global."""
    if kind in (TABLE, GLOBAL):
        reader.byte()
    if kind == GLOBAL:
        reader.byte()
        return 0
    if kind not in (TABLE, MEMORY):
        raise UnsupportedBinary(f"import of kind {kind}")
    flags, size = reader.byte(), reader.uleb()
    if flags & 1:
        reader.uleb()
    return size


def replace_sections(
    header: bytes, sections: Iterable[tuple[int, bytes]], bodies: Mapping[int, bytes]
) -> bytes:
    """Return a binary of sections (kind and body), with other `bodies` for the sections of some kinds."""
    parts = [header]
    for kind, body in sections:
        replaced = bodies.get(kind, body)
        parts += (bytes([kind]) + uleb(len(replaced)), replaced)
    return b"".join(parts)


def count_imported_functions(reader: BinaryReader) -> int:
    """Read an import section and return its number of functions.

    Raises UnsupportedBinary for any other import.
    """
    count = reader.uleb()
    for _ in range(count):
        reader.name()
        reader.name()
        if reader.byte() != FUNCTION:
            raise UnsupportedBinary("module with imports other than functions")
        reader.uleb()
    return count


def read_data(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield address and content of each data segment of a data section.

    Raises UnsupportedBinary unless all are active segments of the first memory, with constant addresses.
    """
    reader = BinaryReader(body)
    for _ in range(reader.uleb()):
        if reader.uleb() != 0 or reader.byte() != I32_CONST:
            raise UnsupportedBinary("data segment without a constant address")
        address = reader.sleb() & 0xFFFFFFFF
        if reader.byte() != END:
            raise UnsupportedBinary("data segment without a constant address")
        yield address, reader.name()


def data_segment(address: int, content: bytes) -> bytes:
    """Return an active data segment of the first memory."""
    return bytes([0, I32_CONST]) + sleb(address) + bytes([END]) + name(content)


def uleb(number: int) -> bytes:
    """Return an unsigned number as LEB128."""
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        if not number:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def sleb(number: int) -> bytes:
    """Return a number as signed LEB128, used for constants and for type indices among value types."""
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        if number == (-1 if low & 0x40 else 0):
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def name(text: bytes) -> bytes:
    """Return a byte string with its length as prefix."""
    return uleb(len(text)) + text


def vector(items: Sequence[bytes]) -> bytes:
    """Return items with their number as prefix."""
    return uleb(len(items)) + b"".join(items)


def section(kind: int, body: bytes) -> bytes:
    """Return a section of a module or a component."""
    return bytes([kind]) + uleb(len(body)) + body
