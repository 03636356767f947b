"""Reads the outline of a component binary: its index spaces, and where what stands in them comes from.

Owns no changes: `memory_probe.py` and `overlay.py` append to what was scanned. Source: the component
model's `Binary.md`, the parts that today's component builders emit; anything else raises `Unscannable`,
never another error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

COMPONENT_HEADER = b"\0asm\x0d\0\x01\0"
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


class UnsupportedBinary(Exception):
    """The binary is not a component, is cut short, or uses a form that this scanner does not know."""


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """Something that the component imports under this name."""

    name: str


@dataclass(frozen=True, slots=True)
class InstanceExport:
    """What an instance (a core instance, for core items) exports under this name."""

    instance: int
    name: bytes


@dataclass(frozen=True, slots=True)
class LoweredFunction:
    """A core function that calls a component function. Indices; `None` for what is not given.

    `encoding` is that of strings: 0 for UTF-8.
    """

    function: int
    encoding: int
    memory: int | None
    realloc: int | None


@dataclass(frozen=True, slots=True)
class LiftedFunction:
    """A component function that calls a core function; canonical `options` by their numbers."""

    function: int
    options: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CoreModule:
    """Where in the binary the module stands, and its section begins."""

    section: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ModuleInstance:
    """A core instance of a module; `arguments` are core instances by name."""

    module: int
    arguments: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class InlineInstance:
    """An instance, core or not, put together of items that are there: a space and an index by name."""

    exports: Mapping[bytes, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ComponentInstance:
    """An instance of a component inside the component; `arguments` are a space and an index by name."""

    component: int
    arguments: Mapping[bytes, tuple[str, int]]


Definition: TypeAlias = (
    ImportedItem
    | InstanceExport
    | LoweredFunction
    | LiftedFunction
    | CoreModule
    | ModuleInstance
    | InlineInstance
    | ComponentInstance
    | None
)


@dataclass(slots=True)
class ComponentOutline:
    """`spaces` has the origin of each item of an index space, `None` where it is not looked at.

    `memories` are core memory indices, each memory once. `imports` and `exports` are the component's own,
    in their order; exports with the space and the index of what they export.
    """

    spaces: dict[str, list[Definition]] = field(default_factory=dict)
    memories: list[int] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    exports: dict[str, tuple[str, int]] = field(default_factory=dict)

    def extend(self, space: str, origin: Definition = None, count: int = 1) -> None:
        """Grow an index space."""
        self.spaces.setdefault(space, []).extend([origin] * count)

    def size_of(self, space: str) -> int:
        """Return an index space's length, which is the next free index."""
        return len(self.spaces.get(space, ()))

    def definition(self, space: str, index: int | None) -> Definition:
        """Return where an item comes from; `None` for one that is not there, too."""
        items = self.spaces.get(space, [])
        return items[index] if index is not None and index < len(items) else None

    def modules(self) -> Iterator[CoreModule]:
        """Yield the module of each core instance that is made of one."""
        for instance in self.spaces.get("core-instance", ()):
            if isinstance(instance, ModuleInstance):
                module = self.definition("core-module", instance.module)
                if isinstance(module, CoreModule):
                    yield module


class BinaryReader:
    """Reads the numbers and names of a binary, from `at` on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Read a byte."""
        if self.at >= len(self.data):
            raise UnsupportedBinary("cut short")
        value = self.data[self.at]
        self.at += 1
        return value

    def uleb(self) -> int:
        """Read an unsigned number (LEB128)."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise UnsupportedBinary("a number of more than 35 bits")

    def name(self) -> bytes:
        """Read a length and so many bytes."""
        length = self.uleb()
        if self.at + length > len(self.data):
            raise UnsupportedBinary("a name that is cut short")
        self.at += length
        return self.data[self.at - length : self.at]


def read_outline(data: bytes) -> ComponentOutline:
    """Return the outline of a component binary."""
    if data[:8] != COMPONENT_HEADER:
        raise UnsupportedBinary("not a component")
    reader, outline = BinaryReader(data, 8), ComponentOutline()
    seen: set[InstanceExport] = set()
    while reader.at < len(data):
        begin, section, size = reader.at, reader.byte(), reader.uleb()
        end = reader.at + size
        if end > len(data):
            raise UnsupportedBinary("a section that is cut short")
        if section in _WHOLE:
            outline.extend(_WHOLE[section], CoreModule(begin, reader.at, end) if section == 1 else None)
        elif section in _COUNTED:
            count = reader.uleb()
            if count > size:
                raise UnsupportedBinary(f"section {section} has more items than bytes")
            outline.extend(_COUNTED[section], count=count)
        elif section in _ITEMS:
            for _ in range(reader.uleb()):
                _ITEMS[section](reader, outline, seen)
            if reader.at != end:
                raise UnsupportedBinary(f"section {section} has another length than its items")
        elif section != 0:
            raise UnsupportedBinary(f"section {section}")
        reader.at = end
    return outline


def _alias(reader: BinaryReader, outline: ComponentOutline, seen: set[InstanceExport]) -> None:
    space = _space(reader)
    target = reader.byte()
    origin = None
    if target in (0, 1):
        origin = InstanceExport(reader.uleb(), reader.name())
        if space == "core-memory" and origin not in seen:
            seen.add(origin)
            outline.memories.append(outline.size_of(space))
    elif target == 2:
        reader.uleb()
        reader.uleb()
    else:
        raise UnsupportedBinary(f"alias target {target}")
    outline.extend(space, origin)


def _sort(sorts: dict[int, str], byte: int) -> str:
    if byte not in sorts:
        raise UnsupportedBinary(f"sort {byte}")
    return sorts[byte]


def _space(reader: BinaryReader) -> str:
    sort = reader.byte()
    return _sort(CORE_SORTS, reader.byte()) if sort == 0 else _sort(SORTS, sort)


def _canon_options(reader: BinaryReader) -> dict[int, int]:
    """Return indices by option (3 memory, 4 realloc, 5 post-return), and under 0 the encoding of strings."""
    options = {}
    for _ in range(reader.uleb()):
        option = reader.byte()
        if option in (3, 4, 5):
            options[option] = reader.uleb()
        elif option <= 2:
            options[0] = option
        else:
            raise UnsupportedBinary(f"canonical option {option}")
    return options


def _canon(reader: BinaryReader, outline: ComponentOutline, _seen: object) -> None:
    kind = reader.byte()
    if kind == 0:
        reader.byte()
        lifted = LiftedFunction(reader.uleb(), _canon_options(reader))
        reader.uleb()
        outline.extend("func", lifted)
    elif kind == 1:
        reader.byte()
        function, options = reader.uleb(), _canon_options(reader)
        outline.extend(
            "core-func", LoweredFunction(function, options.get(0, 0), options.get(3), options.get(4))
        )
    elif kind in (2, 3, 4, 7):
        reader.uleb()
        outline.extend("core-func")
    else:
        raise UnsupportedBinary(f"canonical function {kind}")


def _extern_name(reader: BinaryReader) -> str:
    if reader.byte() > 1:
        raise UnsupportedBinary("a name with options")
    try:
        return reader.name().decode()
    except UnicodeDecodeError as error:
        raise UnsupportedBinary("a name that is no text") from error


def _extern_type(reader: BinaryReader) -> str:
    kind = reader.byte()
    if kind == 0:
        reader.byte()
        reader.uleb()
        return "core-module"
    if kind == 3:
        if reader.byte() == 0:
            reader.uleb()
        return "type"
    if kind in (1, 4, 5):
        reader.uleb()
        return SORTS[kind]
    raise UnsupportedBinary(f"external type {kind}")


def _import(reader: BinaryReader, outline: ComponentOutline, _seen: object) -> None:
    name = _extern_name(reader)
    outline.imports.append(name)
    outline.extend(_extern_type(reader), ImportedItem(name))


def _export(reader: BinaryReader, outline: ComponentOutline, _seen: object) -> None:
    exported, space, index = _extern_name(reader), _space(reader), reader.uleb()
    outline.exports[exported] = space, index
    if reader.byte():
        _extern_type(reader)
    outline.extend(space, outline.definition(space, index))


_WHOLE = {1: "core-module", 4: "component"}
_COUNTED = {3: "core-type", 7: "type"}


def _core_instance(reader: BinaryReader, outline: ComponentOutline, _seen: object) -> None:
    kind = reader.byte()
    if kind == 0:
        module, arguments = reader.uleb(), {}
        for _ in range(reader.uleb()):
            name = reader.name()
            _sort({0x12: "core-instance"}, reader.byte())
            arguments[name] = reader.uleb()
        outline.extend("core-instance", ModuleInstance(module, arguments))
    elif kind == 1:
        exports = {}
        for _ in range(reader.uleb()):
            name = reader.name()
            exports[name] = (_sort(CORE_SORTS, reader.byte()), reader.uleb())
        outline.extend("core-instance", InlineInstance(exports))
    else:
        raise UnsupportedBinary(f"core instance {kind}")


def _instance(reader: BinaryReader, outline: ComponentOutline, _seen: object) -> None:
    kind = reader.byte()
    if kind > 1:
        raise UnsupportedBinary(f"instance {kind}")
    component = reader.uleb() if kind == 0 else 0
    items = {}
    for _ in range(reader.uleb()):
        name = _extern_name(reader).encode() if kind == 1 else reader.name()
        items[name] = _space(reader), reader.uleb()
    outline.extend("instance", InlineInstance(items) if kind == 1 else ComponentInstance(component, items))


_ITEMS = {2: _core_instance, 5: _instance, 6: _alias, 8: _canon, 10: _import, 11: _export}
