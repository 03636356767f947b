"""Rewriter that stores a captured state in a core module, so that its instances start from it.

The state is a `ModuleState`. A module that could have more state (mutable tables, imported memories, passive
segments) raises `UnsupportedBinary`. Source: the WebAssembly core specification, binary format of modules.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.wasm_binary import (
    DATA,
    DATA_COUNT,
    END,
    I32_CONST,
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    count_imported_functions,
    data_segment,
    name,
    read_data,
    read_sections,
    replace_sections,
    sleb,
    uleb,
    vector,
)

_IMPORTS, _FUNCTIONS, _MEMORIES, _GLOBALS, _EXPORTS, _START, _CODE = 2, 3, 5, 6, 7, 8, 10
FUNCTION, MEMORY, _GLOBAL = 0, 2, 3
_I64_CONST = 0x42
_CONSTANTS = {0x7F: I32_CONST, 0x7E: _I64_CONST}
"""The constant instruction of each integer type."""
_EMPTY_FUNCTION = b"\x02\x00\x0b"
"""The code of an empty function, with its size as prefix."""
# A run of zeros splits a segment in two only if it is longer than the overhead of a segment.
_NONZERO_RUN = re.compile(rb"[^\0](?:[^\0]|\0{1,32}(?=[^\0]))*")


@dataclass(frozen=True, slots=True)
class ModuleState:
    """The complete state of an instance: its memory (whole pages) and the values of its mutable globals."""

    memory: bytes
    global_values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _GlobalVariable:
    kind: int
    mutable: bool
    initial: bytes


class ModuleBinary:
    """A core module with one memory of its own."""

    def __init__(self, binary: bytes) -> None:
        """Parse a module. Raises `UnsupportedBinary`."""
        self._sections = list(read_sections(binary))
        bodies = dict(self._sections)
        if _START in bodies or DATA not in bodies:
            raise UnsupportedBinary("module with a start function or without data")
        self._imported = count_imported_functions(BinaryReader(bodies.get(_IMPORTS, b"\0")))
        functions = BinaryReader(bodies.get(_FUNCTIONS, b"\0"))
        self._types = [functions.uleb() for _ in range(functions.uleb())]
        self._maximum = _read_maximum(BinaryReader(bodies.get(_MEMORIES, b"\0")))
        self._global_variables = list(_read_globals(BinaryReader(bodies.get(_GLOBALS, b"\0"))))
        self.exports = dict(_read_exports(BinaryReader(bodies.get(_EXPORTS, b"\0"))))
        for _ in read_data(bodies[DATA]):  # raises for a segment of another kind
            pass

    def with_globals_exported(self) -> tuple[bytes, tuple[str, ...]]:
        """Return the module with its mutable globals exported, and the export names."""
        names = {f"svc-variable-{at}": at for at, each in enumerate(self._global_variables) if each.mutable}
        exports = self.exports | {n.encode(): (_GLOBAL, at) for n, at in names.items()}
        changed = {_EXPORTS: _encode_exports(exports)}
        return replace_sections(MODULE_HEADER, self._sections, changed), tuple(names)

    def with_state(self, state: ModuleState, finished: bytes) -> bytes:
        """Return the module with an initial state; the function exported as `finished` becomes empty.

        Raises UnsupportedBinary if the export is not a function of this module.
        """
        kind, function = self.exports[finished]
        index = function - self._imported
        if kind != FUNCTION or not 0 <= index < len(self._types):
            raise UnsupportedBinary("the start function is not defined in the module")
        values = iter(state.global_values)
        globals_ = [
            _encode_global(each, next(values)) if each.mutable else each.initial
            for each in self._global_variables
        ]
        pieces = [data_segment(match.start(), match[0]) for match in _NONZERO_RUN.finditer(state.memory)]
        empty_function = self._imported + len(self._types)
        limits = b"\x00" if self._maximum is None else b"\x01"
        maximum = b"" if self._maximum is None else uleb(self._maximum)
        code = BinaryReader(dict(self._sections).get(_CODE, b"\0"))
        changed = {
            _CODE: uleb(code.uleb() + 1) + code.data[code.at :] + _EMPTY_FUNCTION,
            _FUNCTIONS: vector([uleb(each) for each in [*self._types, self._types[index]]]),
            _MEMORIES: vector([limits + uleb(len(state.memory) >> 16) + maximum]),
            _GLOBALS: vector(globals_),
            _EXPORTS: _encode_exports(self.exports | {finished: (FUNCTION, empty_function)}),
            DATA: vector(pieces),
            DATA_COUNT: uleb(len(pieces)),
        }
        return replace_sections(MODULE_HEADER, self._sections, changed)


def _read_maximum(reader: BinaryReader) -> int | None:
    if reader.uleb() != 1:
        raise UnsupportedBinary("not exactly one memory")
    flags = reader.byte()
    if flags > 1:
        raise UnsupportedBinary("shared or 64-bit memory")
    reader.uleb()
    return reader.uleb() if flags else None


def _read_globals(reader: BinaryReader) -> Iterator[_GlobalVariable]:
    for _ in range(reader.uleb()):
        begin, kind, mutable = reader.at, reader.byte(), reader.byte() == 1
        if kind not in _CONSTANTS:
            raise UnsupportedBinary("global that is not an integer")
        _skip_constant(reader, _CONSTANTS[kind])
        yield _GlobalVariable(kind, mutable, reader.data[begin : reader.at])


def _skip_constant(reader: BinaryReader, instruction: int) -> None:
    if reader.byte() != instruction:
        raise UnsupportedBinary("initializer is not a constant")
    while reader.byte() >= 0x80:
        pass
    if reader.byte() != END:
        raise UnsupportedBinary("initializer is more than a constant")


def _encode_global(variable: _GlobalVariable, value: int) -> bytes:
    return bytes([variable.kind, 1, _CONSTANTS[variable.kind]]) + sleb(value) + bytes([END])


def _read_exports(reader: BinaryReader) -> Iterator[tuple[bytes, tuple[int, int]]]:
    for _ in range(reader.uleb()):
        yield reader.name(), (reader.byte(), reader.uleb())


def _encode_exports(exports: Mapping[bytes, tuple[int, int]]) -> bytes:
    return vector([name(text) + bytes([kind]) + uleb(at) for text, (kind, at) in exports.items()])
