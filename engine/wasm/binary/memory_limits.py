"""Per-memory limit of an instance, chosen so that all its memories together stay within the limit.

wasmtime applies one size limit to every memory and has no callback for growth, so the size is computed in
advance. A single memory gets the complete limit. Several memories share it evenly; a memory with a smaller
declared maximum leaves the rest to the others. Nested components do not count: a woven component has no
instances of them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from engine.wasm.binary.reader import read_outline
from engine.wasm_binary import MEMORIES, BinaryReader, UnsupportedBinary, read_sections

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
