"""Rewrites a core module so that its instances begin in a state that one of them has reached.

Owns the binary of such a module; runs nothing. The state is what `State` has: a module that could keep more
(tables that change, memories of others, segments to be copied later) raises `Unscannable`.
Source: the WebAssembly core specification, binary format of modules.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.wasm.binary.reader import Reader, Unscannable
from engine.wasm.binary.writer import leb, name, section, signed, vector

_HEADER = b"\0asm\x01\0\0\0"
_IMPORTS, _FUNCTIONS, _MEMORIES, _GLOBALS, _EXPORTS, _START, _CODE, _DATA, _DATA_COUNT = (
    2, 3, 5, 6, 7, 8, 10, 11, 12,
)  # fmt: skip
FUNCTION, MEMORY, _GLOBAL = 0, 2, 3
_I32_CONST, _I64_CONST, _END = 0x41, 0x42, 0x0B
_CONSTANTS = {0x7F: _I32_CONST, 0x7E: _I64_CONST}
"""What makes a constant of a type of whole numbers."""
_NOTHING = b"\x02\x00\x0b"
"""The code of a function that does nothing, with its size in front."""
# Zeros between two pieces are worth a segment of their own where there are more of them than it costs.
_PIECE = re.compile(rb"[^\0](?:[^\0]|\0{1,32}(?=[^\0]))*")


@dataclass(frozen=True, slots=True)
class State:
    """All that an instance has: the bytes of its memory, whole pages, and the values of its variables."""

    memory: bytes
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Variable:
    kind: int
    mutable: bool
    first: bytes


class ModuleBinary:
    """A core module with one memory of its own."""

    def __init__(self, binary: bytes) -> None:
        """Read a module. Raises `Unscannable`."""
        self._sections = list(_sections(binary))
        bodies = dict(self._sections)
        if _START in bodies or _DATA not in bodies:
            raise Unscannable("a module with a start function, or without data")
        self._imported = _imported(Reader(bodies.get(_IMPORTS, b"\0")))
        self._types = _numbers(Reader(bodies.get(_FUNCTIONS, b"\0")))
        self._maximum = _maximum(Reader(bodies.get(_MEMORIES, b"\0")))
        self._variables = list(_variables(Reader(bodies.get(_GLOBALS, b"\0"))))
        self.exports = dict(_exports(Reader(bodies.get(_EXPORTS, b"\0"))))
        _check_segments(Reader(bodies[_DATA]))

    def shown(self) -> tuple[bytes, tuple[str, ...]]:
        """Return the module with its variables exported, and the names of these exports."""
        names = {f"svc-variable-{at}": at for at, each in enumerate(self._variables) if each.mutable}
        exports = self.exports | {n.encode(): (_GLOBAL, at) for n, at in names.items()}
        return self._with({_EXPORTS: _export_section(exports)}), tuple(names)

    def preset(self, state: State, done: bytes) -> bytes:
        """Return the module with a state to begin in; the function exported as `done` does nothing now."""
        kind, function = self.exports[done]
        own = function - self._imported
        if kind != FUNCTION or not 0 <= own < len(self._types):
            raise Unscannable("what has been done is no function of the module's")
        values = iter(state.variables)
        variables = [
            _variable(each, next(values)) if each.mutable else each.first for each in self._variables
        ]
        pieces = [
            bytes([0, _I32_CONST]) + signed(found.start()) + bytes([_END]) + name(found[0])
            for found in _PIECE.finditer(state.memory)
        ]
        nothing = self._imported + len(self._types)
        limits = b"\x00" if self._maximum is None else b"\x01"
        most = b"" if self._maximum is None else leb(self._maximum)
        changed = {
            _FUNCTIONS: vector([leb(each) for each in [*self._types, self._types[own]]]),
            _MEMORIES: vector([limits + leb(len(state.memory) >> 16) + most]),
            _GLOBALS: vector(variables),
            _EXPORTS: _export_section(self.exports | {done: (FUNCTION, nothing)}),
            _DATA: vector(pieces),
            _DATA_COUNT: leb(len(pieces)),
        }
        return self._with(changed, more_code=_NOTHING)

    def _with(self, changed: Mapping[int, bytes], more_code: bytes = b"") -> bytes:
        out = bytearray(_HEADER)
        for kind, body in self._sections:
            if kind == _CODE and more_code:
                reader = Reader(body)
                body = leb(reader.number() + 1) + body[reader.at :] + more_code
            out += section(kind, changed.get(kind, body))
        return bytes(out)


def _sections(binary: bytes) -> Iterator[tuple[int, bytes]]:
    if binary[: len(_HEADER)] != _HEADER:
        raise Unscannable("not a core module")
    reader = Reader(binary, len(_HEADER))
    while reader.at < len(binary):
        yield reader.byte(), reader.name()


def _numbers(reader: Reader) -> list[int]:
    return [reader.number() for _ in range(reader.number())]


def _imported(reader: Reader) -> int:
    """Return how many functions are imported; anything else that is makes a module that is not known."""
    count = reader.number()
    for _ in range(count):
        reader.name()
        reader.name()
        if reader.byte() != FUNCTION:
            raise Unscannable("a module that imports more than functions")
        reader.number()
    return count


def _maximum(reader: Reader) -> int | None:
    if reader.number() != 1:
        raise Unscannable("not one memory")
    flags = reader.byte()
    if flags > 1:
        raise Unscannable("a memory that is shared or has 64 bits")
    reader.number()
    return reader.number() if flags else None


def _variables(reader: Reader) -> Iterator[_Variable]:
    for _ in range(reader.number()):
        begin, kind, mutable = reader.at, reader.byte(), reader.byte() == 1
        if kind not in _CONSTANTS:
            raise Unscannable("a variable that is no whole number")
        _skip_constant(reader, _CONSTANTS[kind])
        yield _Variable(kind, mutable, reader.data[begin : reader.at])


def _skip_constant(reader: Reader, instruction: int) -> None:
    if reader.byte() != instruction:
        raise Unscannable("a beginning that is no constant")
    while reader.byte() >= 0x80:
        pass
    if reader.byte() != _END:
        raise Unscannable("a beginning that is more than a constant")


def _variable(variable: _Variable, value: int) -> bytes:
    return bytes([variable.kind, 1, _CONSTANTS[variable.kind]]) + signed(value) + bytes([_END])


def _exports(reader: Reader) -> Iterator[tuple[bytes, tuple[int, int]]]:
    for _ in range(reader.number()):
        yield reader.name(), (reader.byte(), reader.number())


def _export_section(exports: Mapping[bytes, tuple[int, int]]) -> bytes:
    return vector([name(text) + bytes([kind]) + leb(at) for text, (kind, at) in exports.items()])


def _check_segments(reader: Reader) -> None:
    for _ in range(reader.number()):
        if reader.number() != 0:
            raise Unscannable("a segment that is copied when the module says so")
        _skip_constant(reader, _I32_CONST)
        reader.name()
