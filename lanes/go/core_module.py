"""Reader of core modules that gives each import a unique name.

Go repeats an import that several packages declare, which a component must not have. The format is in the
WebAssembly core specification, binary format of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.wasm_binary import (
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    name,
    read_sections,
    section,
    uleb,
)

_TYPES, _IMPORTS, _EXPORTS = 1, 2, 7
_VALUES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}


@dataclass(frozen=True, slots=True)
class Import:
    """An imported function. `alias` is its name in the renamed module; types are "i32", "i64", …"""

    module: str
    name: str
    alias: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnboundModule:
    """A module with unique import names. `binary` is the complete module."""

    binary: bytes
    imports: tuple[Import, ...]
    exports: frozenset[str]


def read(data: bytes) -> UnboundModule:
    """Read a module. Raises `UnsupportedBinary` unless it has the form that Go writes."""
    try:
        return _read(data)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise UnsupportedBinary(f"not a module as Go writes it: {error!r}") from error


def _read(data: bytes) -> UnboundModule:
    binary = bytearray(MODULE_HEADER)
    types: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    imports: tuple[Import, ...] = ()
    exports: frozenset[str] = frozenset()
    for kind, body in read_sections(data):
        reader = BinaryReader(body)
        if kind == _TYPES:
            for _ in range(reader.uleb()):
                if reader.byte() != 0x60:
                    raise UnsupportedBinary("a type that is not a function's")
                types.append((_values(reader), _values(reader)))
        elif kind == _IMPORTS:
            body, imports = _rename_imports(reader, types)
        elif kind == _EXPORTS:
            exports = frozenset(_exports(reader))
        binary += section(kind, body)
    return UnboundModule(bytes(binary), imports, exports)


def _rename_imports(
    reader: BinaryReader, types: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> tuple[bytes, tuple[Import, ...]]:
    count = reader.uleb()
    binary, imports = bytearray(uleb(count)), []
    counts: dict[tuple[str, str], int] = {}
    for _ in range(count):
        module, field = reader.name().decode(), reader.name().decode()
        if reader.byte() != 0:
            raise UnsupportedBinary(f"{module} {field} is imported and is not a function")
        index = reader.uleb()
        occurrence = counts[module, field] = counts.get((module, field), 0) + 1
        alias = field if occurrence == 1 else f"{field} {occurrence}"
        imports.append(Import(module, field, alias, *types[index]))
        binary += name(module.encode()) + name(alias.encode()) + b"\0" + uleb(index)
    return bytes(binary), tuple(imports)


def _exports(reader: BinaryReader) -> Iterator[str]:
    for _ in range(reader.uleb()):
        yield reader.name().decode()
        reader.byte()
        reader.uleb()


def _values(reader: BinaryReader) -> tuple[str, ...]:
    return tuple(_VALUES[byte] for byte in reader.name())
