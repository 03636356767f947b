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
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    name,
    read_sections,
    section,
    sleb,
    uleb,
    vector,
)

MIN_IMAGE_BYTES, MAX_IMAGE_BYTES = 4 << 20, 64 << 20
"""Smaller memories belong to programs whose code differs, so that a shared copy does not pay."""
_MIN_DENSITY = 0.25
_MARK = hashlib.sha256(b"initial memory").digest()
_CORE_MODULE, _DATA, _DATA_COUNT = 1, 11, 12
_ACTIVE, _I32_CONST, _END = 0, 0x41, 0x0B
_WASM_PAGE = 65536


@dataclass(frozen=True, slots=True)
class SplitComponent:
    """A component whose main memory is a placeholder, and the initial content of that memory."""

    code: bytes
    memory: bytes

    def with_memory(self, machine_code: bytes) -> bytes:
        """Return the machine code of `code` with the memory instead of the placeholder.

        Raises UnsupportedBinary if the placeholder is not in it exactly once.
        """
        start = machine_code.find(_MARK)
        end = start + len(self.memory)
        if machine_code.count(_MARK) != 2 or not machine_code.startswith(_MARK, end - len(_MARK)):
            raise UnsupportedBinary("machine code without a place for the memory")
        return b"".join((memoryview(machine_code)[:start], self.memory, memoryview(machine_code)[end:]))


def split_memory(component: bytes) -> SplitComponent:
    """Split the largest core module of a component. Raises UnsupportedBinary if that does not pay or fit."""
    sections = list(read_sections(component, COMPONENT_HEADER))
    main = max((body for kind, body in sections if kind == _CORE_MODULE), key=len, default=b"")
    inner = list(read_sections(main))
    start, memory = _image(BinaryReader(dict(inner).get(_DATA, b"\0")))
    placeholder = _MARK + bytes(len(memory) - 2 * len(_MARK)) + _MARK
    segment = bytes([_ACTIVE, _I32_CONST]) + sleb(start) + bytes([_END]) + name(placeholder)
    changed = {_DATA: vector([segment]), _DATA_COUNT: uleb(1)}
    module = MODULE_HEADER + b"".join(section(kind, changed.get(kind, body)) for kind, body in inner)
    return SplitComponent(
        COMPONENT_HEADER
        + b"".join(section(kind, module if body is main else body) for kind, body in sections),
        memory,
    )


def _image(reader: BinaryReader) -> tuple[int, bytes]:
    """Return the address and the content of the memory that data segments fill, in whole pages."""
    segments = [_segment(reader) for _ in range(reader.uleb())]
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


def _segment(reader: BinaryReader) -> tuple[int, bytes]:
    """Read the address and the content of a data segment. Raises UnsupportedBinary for any other kind."""
    if reader.uleb() != _ACTIVE or reader.byte() != _I32_CONST:
        raise UnsupportedBinary("data segment without a constant address")
    address = reader.sleb() & 0xFFFFFFFF
    if reader.byte() != _END:
        raise UnsupportedBinary("data segment without a constant address")
    return address, reader.name()
