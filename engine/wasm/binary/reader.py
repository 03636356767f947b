"""Reader of component outlines: index spaces, the definition of each item, and the limits of memories.

Supports the parts of the component model's `Binary.md` that current component builders emit. Anything else
raises `UnsupportedBinary`, never another error.

wasmtime applies one size limit to every memory of an instance and has no callback for growth, so the size is
computed in advance. A single memory gets the complete limit. Several memories share it evenly; a memory with
a smaller declared maximum leaves the rest to the others. Nested components do not count: a woven component
has no instances of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from engine.wasm_binary import (
    COMPONENT_HEADER,
    CORE_MODULE,
    MEMORIES,
    NESTED_COMPONENT,
    BinaryReader,
    UnsupportedBinary,
    read_sections,
)

CORE_SORTS = {
    0x00: "core-func", 0x01: "core-table", 0x02: "core-memory", 0x03: "core-global", 0x04: "core-tag",
    0x10: "core-type", 0x11: "core-module", 0x12: "core-instance",
}  # fmt: skip
MAX_OUTLINE_BYTES = 1 << 20
"""Maximum bytes to analyze, without modules, nested components and custom sections."""
_SECTION_COST = 16
"""Bytes that each section counts beside its content, because a section of 2 bytes also takes time."""
SORTS = {1: "func", 2: "value", 3: "type", 4: "component", 5: "instance"}


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """An import of the component, with its name."""

    name: str


@dataclass(frozen=True, slots=True)
class InstanceExport:
    """An export of an instance (for core items: of a core instance), with its name."""

    instance: int
    name: bytes


@dataclass(frozen=True, slots=True)
class LoweredFunction:
    """A core function that calls a component function. Fields are indices; `None` if absent.

    `encoding` is the string encoding: 0 for UTF-8.
    """

    function: int
    encoding: int
    memory: int | None
    realloc: int | None


@dataclass(frozen=True, slots=True)
class ResourceDrop:
    """A core function that drops a handle; `type` is the index of the resource type."""

    type: int


@dataclass(frozen=True, slots=True)
class LiftedFunction:
    """A component function that calls a core function."""

    function: int


@dataclass(frozen=True, slots=True)
class CoreModule:
    """Byte range of a module in the binary, and the start of its section."""

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
    """An instance, core or component, composed of existing items: index space and index by name."""

    exports: Mapping[bytes, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ComponentInstance:
    """An instance of a nested component; `arguments` are index space and index by name."""

    component: int
    arguments: Mapping[bytes, tuple[str, int]]


Definition: TypeAlias = (
    ImportedItem
    | InstanceExport
    | LoweredFunction
    | ResourceDrop
    | LiftedFunction
    | CoreModule
    | ModuleInstance
    | InlineInstance
    | ComponentInstance
    | None
)


@dataclass(slots=True)
class ComponentOutline:
    """Index spaces of a component: `spaces` has the definition of each item, `None` if not analyzed.

    `imports` and `exports` are the component's own, in order; exports have the index space and the index of
    their item. `core_items` are index space and index of each core item, in the order of their definitions.
    """

    spaces: dict[str, list[Definition]] = field(default_factory=dict)
    imports: list[str] = field(default_factory=list)
    exports: dict[str, tuple[str, int]] = field(default_factory=dict)
    core_items: list[tuple[str, int]] = field(default_factory=list)

    def extend(self, space: str, origin: Definition = None, count: int = 1) -> None:
        """Add items to an index space."""
        items = self.spaces.setdefault(space, [])
        if space.startswith("core-"):
            self.core_items += ((space, len(items) + i) for i in range(count))
        items.extend([origin] * count)

    def definition(self, space: str, index: int | None) -> Definition:
        """Return an item's definition; `None` also for an invalid index."""
        items = self.spaces.get(space, [])
        return items[index] if index is not None and index < len(items) else None

    def modules(self) -> Iterator[CoreModule]:
        """Yield the module of each core instance created from a module."""
        for instance in self.spaces.get("core-instance", ()):
            if isinstance(instance, ModuleInstance):
                module = self.definition("core-module", instance.module)
                if isinstance(module, CoreModule):
                    yield module


def read_outline(data: bytes) -> ComponentOutline:
    """Return the outline of a component binary. Raises UnsupportedBinary."""
    if data[:8] != COMPONENT_HEADER:
        raise UnsupportedBinary("not a component")
    reader, outline = BinaryReader(data, 8), ComponentOutline()
    outline_bytes = 0
    while reader.at < len(data):
        begin, section, size = reader.at, reader.byte(), reader.uleb()
        end = reader.at + size
        if end > len(data):
            raise UnsupportedBinary("truncated section")
        outline_bytes += _SECTION_COST + (0 if section in _OPAQUE_SECTIONS else size)
        if outline_bytes > MAX_OUTLINE_BYTES:
            raise UnsupportedBinary("outline of more than 1 MiB")
        if section in _SINGLE_ITEM_SECTIONS:
            item = CoreModule(begin, reader.at, end) if section == CORE_MODULE else None
            outline.extend(_SINGLE_ITEM_SECTIONS[section], item)
        elif section in _COUNTED_SECTIONS:
            count = reader.uleb()
            if count > size:
                raise UnsupportedBinary(f"section {section} has more items than bytes")
            outline.extend(_COUNTED_SECTIONS[section], count=count)
        elif section in _ITEM_PARSERS:
            for _ in range(reader.uleb()):
                _ITEM_PARSERS[section](reader, outline)
            if reader.at != end:
                raise UnsupportedBinary(f"length of section {section} differs from its items")
        elif section != 0:
            raise UnsupportedBinary(f"section {section}")
        reader.at = end
    return outline


def _alias(reader: BinaryReader, outline: ComponentOutline) -> None:
    space = _space(reader)
    target = reader.byte()
    origin = None
    if target in (0, 1):
        origin = InstanceExport(reader.uleb(), reader.name())
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
    """Return indices by option (3 memory, 4 realloc, 5 post-return); key 0 has the string encoding."""
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


def _canon(reader: BinaryReader, outline: ComponentOutline) -> None:
    kind = reader.byte()
    if kind == 0:
        reader.byte()
        lifted = LiftedFunction(reader.uleb())
        _canon_options(reader)
        reader.uleb()
        outline.extend("func", lifted)
    elif kind == 1:
        reader.byte()
        function, options = reader.uleb(), _canon_options(reader)
        outline.extend(
            "core-func", LoweredFunction(function, options.get(0, 0), options.get(3), options.get(4))
        )
    elif kind == 3:
        outline.extend("core-func", ResourceDrop(reader.uleb()))
    elif kind in (2, 4, 7):
        reader.uleb()
        outline.extend("core-func")
    else:
        raise UnsupportedBinary(f"canonical function {kind}")


def _extern_name(reader: BinaryReader) -> str:
    if reader.byte() > 1:
        raise UnsupportedBinary("name with options")
    return reader.text()


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


def _import(reader: BinaryReader, outline: ComponentOutline) -> None:
    name = _extern_name(reader)
    outline.imports.append(name)
    outline.extend(_extern_type(reader), ImportedItem(name))


def _export(reader: BinaryReader, outline: ComponentOutline) -> None:
    exported, space, index = _extern_name(reader), _space(reader), reader.uleb()
    outline.exports[exported] = space, index
    if reader.byte():
        _extern_type(reader)
    outline.extend(space, outline.definition(space, index))


_SINGLE_ITEM_SECTIONS = {CORE_MODULE: "core-module", NESTED_COMPONENT: "component"}
_COUNTED_SECTIONS = {3: "core-type", 7: "type"}
_OPAQUE_SECTIONS = {0, *_SINGLE_ITEM_SECTIONS}


def _core_instance(reader: BinaryReader, outline: ComponentOutline) -> None:
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


def _instance(reader: BinaryReader, outline: ComponentOutline) -> None:
    kind = reader.byte()
    if kind > 1:
        raise UnsupportedBinary(f"instance {kind}")
    component = reader.uleb() if kind == 0 else 0
    items = {}
    for _ in range(reader.uleb()):
        name = _extern_name(reader).encode() if kind == 1 else reader.name()
        items[name] = _space(reader), reader.uleb()
    outline.extend("instance", InlineInstance(items) if kind == 1 else ComponentInstance(component, items))


_ITEM_PARSERS = {2: _core_instance, 5: _instance, 6: _alias, 8: _canon, 10: _import, 11: _export}


PAGE_BYTES = 65536
MAX_MEMORIES = 8
"""Maximum memories of a component."""
_HAS_MAXIMUM, _IS_64_BIT = 1, 4


class MemoryType(NamedTuple):
    """Declared sizes of a memory in bytes; a `maximum` of `None` stands for none declared.

    `index_type` is `i32` or `i64`.
    """

    minimum: int
    maximum: int | None
    index_type: str


def declared_limits(component: bytes) -> list[int | None]:
    """Return the declared maximum size of each memory in bytes (`None`: no maximum).

    Raises UnsupportedBinary.
    """
    limits: list[int | None] = []
    for module, count in Counter(read_outline(component).modules()).items():
        limits += [memory.maximum for memory in read_memories(component[module.start : module.end])] * count
    return limits


def split_limit(maxima: Sequence[int | None], limit: int) -> int:
    """Return the largest size per memory at which memories with these maxima (bytes) sum to `limit`."""
    remaining, count = limit, len(maxima)
    for maximum in sorted(limit if maximum is None else maximum for maximum in maxima):
        if maximum * count > remaining:
            return remaining // count // PAGE_BYTES * PAGE_BYTES
        remaining, count = remaining - maximum, count - 1
    return limit


def read_memories(module: bytes) -> list[MemoryType]:
    """Return the memories that a core module defines, a few if they are too many.

    Raises UnsupportedBinary.
    """
    reader = BinaryReader(dict(read_sections(module)).get(MEMORIES, b"\0"))
    return [_read_type(reader) for _ in range(min(reader.uleb(), MAX_MEMORIES + 1))]


def _read_type(reader: BinaryReader) -> MemoryType:
    flags = reader.byte()
    if flags & ~(_HAS_MAXIMUM | _IS_64_BIT):
        raise UnsupportedBinary(f"memory type {flags}")
    minimum = reader.uleb() * PAGE_BYTES
    maximum = reader.uleb() * PAGE_BYTES if flags & _HAS_MAXIMUM else None
    return MemoryType(minimum, maximum, "i64" if flags & _IS_64_BIT else "i32")
