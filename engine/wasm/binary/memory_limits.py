"""Per-memory limit of an instance, chosen so that all its memories together stay within the limit.

wasmtime applies one size limit to every memory and has no callback for growth, so the size is computed in
advance. A single memory gets the complete limit. Several memories share it evenly; a memory with a smaller
declared maximum leaves the rest to the others. Memories of nested components, which current tools do not
create, are not counted, and each may reach the same size.
"""

from collections import Counter
from collections.abc import Sequence

from engine.wasm.binary.memory_probe import PAGE_BYTES
from engine.wasm.binary.reader import read_outline
from engine.wasm_binary import BinaryReader, UnsupportedBinary, read_sections

_MEMORY_SECTION = 5
_HAS_MAXIMUM, _IS_64_BIT = 1, 4


def declared_limits(component: bytes) -> tuple[int | None, ...]:
    """Return the declared maximum size of each memory in bytes (`None`: no maximum).

    Empty if the outline of the component is unsupported.
    """
    try:
        instances = Counter(read_outline(component).modules())
        return tuple(
            maximum
            for module, count in instances.items()
            for maximum in _module_limits(component[module.start : module.end]) * count
        )
    except UnsupportedBinary:
        return ()


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
