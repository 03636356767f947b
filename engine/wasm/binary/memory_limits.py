"""Per-memory limit of an instance, chosen so that all its memories together stay within the limit.

wasmtime applies one size limit to every memory and has no callback for growth, so the size is computed in
advance. A single memory gets the complete limit. Several memories share it evenly; a memory with a smaller
declared maximum leaves the rest to the others. A component whose memories cannot be counted may have
`MAX_MEMORIES`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from engine.wasm.binary.reader import (
    ComponentInstance,
    CoreModule,
    ModuleInstance,
    NestedComponent,
    read_outline,
)
from engine.wasm_binary import BinaryReader, UnsupportedBinary, read_sections

PAGE_BYTES = 65536
MAX_MEMORIES = 8
"""Maximum memories of a component, nested ones included."""
_MAX_INSTANCES = 64
"""Maximum instances of nested components that are counted: each may contain as many again."""
_MEMORY_SECTION = 5
_HAS_MAXIMUM, _IS_64_BIT = 1, 4


def declared_limits(component: bytes) -> tuple[int | None, ...]:
    """Return the declared maximum size of each memory in bytes (`None`: no maximum)."""
    try:
        return tuple(_limits(component))
    except UnsupportedBinary:
        return (None,) * MAX_MEMORIES


def _limits(component: bytes) -> Iterator[int | None]:
    """Yield the limits of a component's memories, instance by instance. Raises UnsupportedBinary."""
    pending = [(0, len(component))]
    for _ in range(_MAX_INSTANCES):
        if not pending:
            return
        start, end = pending.pop()
        binary = component[start:end]
        outline, modules = read_outline(binary), Counter[CoreModule]()
        for instance in outline.spaces.get("core-instance", ()):
            if isinstance(instance, ModuleInstance):
                module = outline.definition("core-module", instance.module)
                if not isinstance(module, CoreModule):
                    raise UnsupportedBinary("a module of another component")
                modules[module] += 1
        for module, count in modules.items():
            yield from _module_limits(binary[module.start : module.end]) * count
        for instance in outline.spaces.get("instance", ()):
            if isinstance(instance, ComponentInstance):
                nested = outline.definition("component", instance.component)
                if not isinstance(nested, NestedComponent):
                    raise UnsupportedBinary("a component of another one")
                pending.append((start + nested.start, start + nested.end))
    raise UnsupportedBinary("many nested components")


def split_limit(maxima: Sequence[int | None], limit: int) -> int:
    """Return the largest size per memory at which memories with these maxima (bytes) sum to `limit`."""
    remaining, count = limit, len(maxima)
    for maximum in sorted(limit if maximum is None else maximum for maximum in maxima):
        if maximum * count > remaining:
            return remaining // count // PAGE_BYTES * PAGE_BYTES
        remaining, count = remaining - maximum, count - 1
    return limit


def _module_limits(module: bytes) -> list[int | None]:
    """Return the declared maximum of each memory defined by a core module."""
    reader = BinaryReader(dict(read_sections(module)).get(_MEMORY_SECTION, b"\0"))
    return [_read_maximum(reader) for _ in range(reader.uleb())]


def _read_maximum(reader: BinaryReader) -> int | None:
    flags = reader.byte()
    if flags & ~(_HAS_MAXIMUM | _IS_64_BIT):
        raise UnsupportedBinary(f"memory type {flags}")
    reader.uleb()
    return reader.uleb() * PAGE_BYTES if flags & _HAS_MAXIMUM else None
