"""Reader of core modules that gives each import a unique name.

Go repeats an import that several packages declare, which a component must not have. The format is in the
WebAssembly core specification, binary format of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass

HEADER = b"\0asm\x01\0\0\0"
_TYPES, _IMPORTS, _EXPORTS = 1, 2, 7
_VALUES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}


class Unreadable(Exception):
    """The file is not a core module in the form that Go writes."""


@dataclass(frozen=True, slots=True)
class Import:
    """An imported function. `alias` is its name in the renamed module; types are "i32", "i64", …"""

    module: str
    name: str
    alias: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoreModule:
    """A module with unique import names. `binary` is the complete module."""

    binary: bytes
    imports: tuple[Import, ...]
    exports: frozenset[str]


def read(data: bytes) -> CoreModule:
    """Read a module. Raises `Unreadable`."""
    if not data.startswith(HEADER):
        raise Unreadable("not a core WebAssembly module")
    try:
        return _read(data)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise Unreadable(f"not a module as Go writes it: {error!r}") from error


def encode(number: int) -> bytes:
    """Encode an unsigned number as LEB128."""
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def section(kind: int, body: bytes) -> bytes:
    """Encode a section."""
    return bytes([kind]) + encode(len(body)) + body


def sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the sections of a module or component: kind and body."""
    cursor = _Cursor(data, len(HEADER))
    while cursor.at < len(data):
        kind = cursor.byte()
        yield kind, cursor.take(cursor.number())


class _Cursor:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise IndexError("cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        return self.take(self.number()).decode()

    def values(self) -> tuple[str, ...]:
        return tuple(_VALUES[byte] for byte in self.take(self.number()))


def _read(data: bytes) -> CoreModule:
    out = bytearray(HEADER)
    types: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    imports: tuple[Import, ...] = ()
    exports: frozenset[str] = frozenset()
    for kind, body in sections(data):
        cursor = _Cursor(body)
        if kind == _TYPES:
            for _ in range(cursor.number()):
                if cursor.byte() != 0x60:
                    raise Unreadable("a type that is not a function's")
                types.append((cursor.values(), cursor.values()))
        elif kind == _IMPORTS:
            body, imports = _renamed(cursor, types)
        elif kind == _EXPORTS:
            exports = frozenset(_exports(cursor))
        out += section(kind, body)
    return CoreModule(bytes(out), imports, exports)


def _renamed(
    cursor: _Cursor, types: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> tuple[bytes, tuple[Import, ...]]:
    count = cursor.number()
    out, found = bytearray(encode(count)), []
    seen: dict[tuple[str, str], int] = {}
    for _ in range(count):
        module, name = cursor.name(), cursor.name()
        if cursor.byte() != 0:
            raise Unreadable(f"{module} {name} is imported and is not a function")
        index = cursor.number()
        times = seen[module, name] = seen.get((module, name), 0) + 1
        alias = name if times == 1 else f"{name} {times}"
        found.append(Import(module, name, alias, *types[index]))
        for text in (module.encode(), alias.encode()):
            out += encode(len(text)) + text
        out += b"\0" + encode(index)
    return bytes(out), tuple(found)


def _exports(cursor: _Cursor) -> Iterator[str]:
    for _ in range(cursor.number()):
        yield cursor.name()
        cursor.byte()
        cursor.number()
