"""Split of a component into its code and its initial memory.

Components of one interpreter have the same code. They differ only in the memory of their main module, which
holds the program. So the code is compiled once, with a placeholder as memory, and each component's machine
code is a copy of that with the component's own memory.

The placeholder is as long as the memory and begins and ends with `_MARK`, which shows where wasmtime stores
it. wasmtime serializes an active data segment of constant offset as it is, and strips pages of zeros from its
ends.
"""

import hashlib
from dataclasses import dataclass

from engine.wasm_binary import (
    COMPONENT_HEADER,
    CORE_MODULE,
    DATA,
    DATA_COUNT,
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    data_segment,
    read_data,
    read_sections,
    replace_sections,
    uleb,
    vector,
)

MIN_IMAGE_BYTES, MAX_IMAGE_BYTES = 4 << 20, 64 << 20
"""Smaller memories belong to programs whose code differs, so that a shared copy does not pay."""
MIN_SEGMENT_BYTES = 64
"""Minimum mean size of the data segments of an image. A Go program has 74,000 segments of 28 bytes."""
_MIN_DENSITY = 0.25
_MARK = hashlib.sha256(b"initial memory").digest()
_WASM_PAGE = 65536


@dataclass(frozen=True, slots=True)
class SplitComponent:
    """A component whose main memory is a placeholder, and the initial content of that memory."""

    code: bytes
    memory: bytes

    def with_memory(self, machine_code: bytes) -> tuple[bytes | memoryview, ...]:
        """Return the machine code of `code`, in parts, with the memory instead of the placeholder.

        Raises UnsupportedBinary if the placeholder is not in it exactly once.
        """
        start = machine_code.find(_MARK)
        end = start + len(self.memory)
        # In passes over different parts: machine code has 40 MB.
        last = machine_code.find(_MARK, start + 1)
        if start < 0 or last != end - len(_MARK) or machine_code.find(_MARK, end) >= 0:
            raise UnsupportedBinary("machine code without a place for the memory")
        return memoryview(machine_code)[:start], self.memory, memoryview(machine_code)[end:]


def split_memory(component: bytes) -> SplitComponent:
    """Split the largest core module of a component. Raises UnsupportedBinary if that does not pay or fit."""
    sections = list(read_sections(component, COMPONENT_HEADER))
    main = max((body for kind, body in sections if kind == CORE_MODULE), key=len, default=b"")
    inner = list(read_sections(main))
    start, memory = _image(dict(inner).get(DATA, b"\0"))
    placeholder = _MARK + bytes(len(memory) - 2 * len(_MARK)) + _MARK
    data = {DATA: vector([data_segment(start, placeholder)]), DATA_COUNT: uleb(1)}
    module = replace_sections(MODULE_HEADER, inner, data)
    outer = ((kind, module if body is main else body) for kind, body in sections)
    return SplitComponent(replace_sections(COMPONENT_HEADER, outer, {}), memory)


def _image(body: bytes) -> tuple[int, bytes]:
    """Return the address and the content of the memory that data segments fill, in whole pages."""
    if len(body) < BinaryReader(body).uleb() * MIN_SEGMENT_BYTES:
        raise UnsupportedBinary("memory of small segments")
    segments = list(read_data(body))
    start = min((address for address, _ in segments), default=0) // _WASM_PAGE * _WASM_PAGE
    end = max((address + len(data) for address, data in segments), default=0)
    length = -(-(end - start) // _WASM_PAGE) * _WASM_PAGE
    if not MIN_IMAGE_BYTES <= length <= MAX_IMAGE_BYTES:
        raise UnsupportedBinary("memory of another size")
    if sum(len(data) for _, data in segments) < length * _MIN_DENSITY:
        raise UnsupportedBinary("memory that is mostly empty")
    image = bytearray(length)
    for address, data in segments:
        image[address - start : address - start + len(data)] = data
    return start, bytes(image)
