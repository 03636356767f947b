"""Reads the outline of a component binary: how long its index spaces are, and where its memories stand.

Owns no changes: `memory_probe.py` appends to what was scanned. Source: the component model's
`Binary.md`, the parts that today's component builders emit; anything else raises `Unscannable`, never
another error.
"""

from dataclasses import dataclass, field

HEADER = b"\0asm\x0d\0\x01\0"
CORE_SORTS = {
    0x00: "core-func",
    0x01: "core-table",
    0x02: "core-memory",
    0x03: "core-global",
    0x04: "core-tag",
    0x10: "core-type",
    0x11: "core-module",
    0x12: "core-instance",
}
SORTS = {1: "func", 2: "value", 3: "type", 4: "component", 5: "instance"}


class Unscannable(Exception):
    """The binary is not a component, is cut short, or uses a form that this scanner does not know."""


@dataclass(slots=True)
class Outline:
    """`counts` maps an index space to its length; `memories` are core memory indices, each memory once.

    `imports` and `exports` are the component's own, in their order.
    """

    counts: dict[str, int] = field(default_factory=dict)
    memories: list[int] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)

    def add(self, space: str, count: int = 1) -> None:
        """Grow an index space."""
        self.counts[space] = self.counts.get(space, 0) + count

    def length(self, space: str) -> int:
        """Return an index space's length, which is the next free index."""
        return self.counts.get(space, 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise Unscannable("cut short")
        value = self.data[self.at]
        self.at += 1
        return value

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise Unscannable("a number of more than 35 bits")

    def name(self) -> bytes:
        length = self.number()
        if self.at + length > len(self.data):
            raise Unscannable("a name that is cut short")
        self.at += length
        return self.data[self.at - length : self.at]


def scan(data: bytes) -> Outline:
    """Return the outline of a component binary."""
    if data[:8] != HEADER:
        raise Unscannable("not a component")
    reader, outline = _Reader(data), Outline()
    reader.at = 8
    seen: set[tuple[int, bytes]] = set()
    while reader.at < len(data):
        section, size = reader.byte(), reader.number()
        end = reader.at + size
        if end > len(data):
            raise Unscannable("a section that is cut short")
        if section in _WHOLE:
            outline.add(_WHOLE[section])
        elif section in _COUNTED:
            outline.add(_COUNTED[section], reader.number())
        elif section in _ITEMS:
            for _ in range(reader.number()):
                _ITEMS[section](reader, outline, seen)
            if reader.at != end:
                raise Unscannable(f"section {section} has another length than its items")
        elif section != 0:
            raise Unscannable(f"section {section}")
        reader.at = end
    return outline


def _alias(reader: _Reader, outline: Outline, seen: set[tuple[int, bytes]]) -> None:
    sort = reader.byte()
    space = _sort(CORE_SORTS, reader.byte()) if sort == 0 else _sort(SORTS, sort)
    target = reader.byte()
    if target in (0, 1):
        origin = (reader.number(), reader.name())
        if space == "core-memory" and origin not in seen:
            seen.add(origin)
            outline.memories.append(outline.length(space))
    elif target == 2:
        reader.number()
        reader.number()
    else:
        raise Unscannable(f"alias target {target}")
    outline.add(space)


def _sort(sorts: dict[int, str], byte: int) -> str:
    if byte not in sorts:
        raise Unscannable(f"sort {byte}")
    return sorts[byte]


def _canon_options(reader: _Reader) -> None:
    for _ in range(reader.number()):
        option = reader.byte()
        if option in (3, 4, 5):
            reader.number()
        elif option > 2:
            raise Unscannable(f"canonical option {option}")


def _canon(reader: _Reader, outline: Outline, _seen: object) -> None:
    kind = reader.byte()
    if kind == 0:
        reader.byte()
        reader.number()
        _canon_options(reader)
        reader.number()
        outline.add("func")
    elif kind == 1:
        reader.byte()
        reader.number()
        _canon_options(reader)
        outline.add("core-func")
    elif kind in (2, 3, 4, 7):
        reader.number()
        outline.add("core-func")
    else:
        raise Unscannable(f"canonical function {kind}")


def _extern_name(reader: _Reader) -> str:
    if reader.byte() > 1:
        raise Unscannable("a name with options")
    try:
        return reader.name().decode()
    except UnicodeDecodeError as error:
        raise Unscannable("a name that is no text") from error


def _extern_type(reader: _Reader) -> str:
    kind = reader.byte()
    if kind == 0:
        reader.byte()
        reader.number()
        return "core-module"
    if kind == 3:
        if reader.byte() == 0:
            reader.number()
        return "type"
    if kind in (1, 4, 5):
        reader.number()
        return SORTS[kind]
    raise Unscannable(f"external type {kind}")


def _import(reader: _Reader, outline: Outline, _seen: object) -> None:
    outline.imports.append(_extern_name(reader))
    outline.add(_extern_type(reader))


def _export(reader: _Reader, outline: Outline, _seen: object) -> None:
    outline.exports.append(_extern_name(reader))
    sort = reader.byte()
    space = _sort(CORE_SORTS, reader.byte()) if sort == 0 else _sort(SORTS, sort)
    reader.number()
    if reader.byte():
        _extern_type(reader)
    outline.add(space)


_WHOLE = {1: "core-module", 4: "component"}
_COUNTED = {3: "core-type", 7: "type"}


def _core_instance(reader: _Reader, outline: Outline, _seen: object) -> None:
    kind = reader.byte()
    if kind == 0:
        reader.number()
        for _ in range(reader.number()):
            reader.name()
            reader.byte()
            reader.number()
    elif kind == 1:
        for _ in range(reader.number()):
            reader.name()
            reader.byte()
            reader.number()
    else:
        raise Unscannable(f"core instance {kind}")
    outline.add("core-instance")


def _instance(reader: _Reader, outline: Outline, _seen: object) -> None:
    kind = reader.byte()
    if kind == 0:
        reader.number()
    elif kind != 1:
        raise Unscannable(f"instance {kind}")
    for _ in range(reader.number()):
        if kind == 1:
            _extern_name(reader)
        else:
            reader.name()
        if reader.byte() == 0:
            reader.byte()
        reader.number()
    outline.add("instance")


_ITEMS = {2: _core_instance, 5: _instance, 6: _alias, 8: _canon, 10: _import, 11: _export}
