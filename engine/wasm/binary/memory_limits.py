"""How large each memory of an instance may become, so that all of them together keep to the limit.

The library limits memories one by one, all to the same size, and calls nobody when one grows. So the size is
worked out before: one memory may have the whole limit; several share it evenly, where those that can not
become so large by their own declaration leave the rest to the others. Memories of components inside the
component, which today's tools do not make, are not seen, and each may have as much as those that are.
"""

from collections.abc import Sequence

from engine.wasm.binary.memory_probe import PAGE_BYTES
from engine.wasm.binary.reader import BinaryReader, UnsupportedBinary, read_outline

_HEADER, _MEMORY_SECTION = 8, 5
_HAS_MAXIMUM, _IS_64_BIT = 1, 4


def declared_limits(component: bytes) -> tuple[int | None, ...]:
    """Return how large each memory of a component may become (bytes; `None`: no maximum of its own).

    Empty when the component can not be read so far.
    """
    try:
        modules = [component[each.start : each.end] for each in read_outline(component).modules()]
        return tuple(maximum for module in modules for maximum in _module_limits(module))
    except UnsupportedBinary:
        return ()


def split_limit(maxima: Sequence[int | None], limit: int) -> int:
    """Return the largest size at which memories with these maxima (bytes; `None`: none) sum to `limit`."""
    left, count = limit, len(maxima)
    for maximum in sorted(limit if maximum is None else maximum for maximum in maxima):
        if maximum * count > left:
            return left // count // PAGE_BYTES * PAGE_BYTES
        left, count = left - maximum, count - 1
    return limit


def _module_limits(module: bytes) -> list[int | None]:
    """Return the maximum of each memory that a core module defines."""
    reader = BinaryReader(module, _HEADER)
    while reader.at < len(module):
        kind, size = reader.byte(), reader.uleb()
        if kind == _MEMORY_SECTION:
            return [_read_maximum(reader) for _ in range(reader.uleb())]
        reader.at += size
    return []


def _read_maximum(reader: BinaryReader) -> int | None:
    flags = reader.byte()
    if flags & ~(_HAS_MAXIMUM | _IS_64_BIT):
        raise UnsupportedBinary(f"memory type {flags}")
    reader.uleb()
    return reader.uleb() * PAGE_BYTES if flags & _HAS_MAXIMUM else None
