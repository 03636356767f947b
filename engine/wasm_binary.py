"""Reader and encoders of WebAssembly binaries: numbers, names, vectors and sections (core and component)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

MODULE_HEADER = b"\0asm\x01\0\0\0"
COMPONENT_HEADER = b"\0asm\x0d\0\x01\0"
CORE_MODULE = 1
"""Section number of a core module in a component."""
MAX_SECTIONS = 10_000
DATA, DATA_COUNT = 11, 12
I32_CONST, END = 0x41, 0x0B
_FUNCTION = 0


class UnsupportedBinary(Exception):
    """The binary is truncated, is of another kind, or uses an unsupported form."""


class BinaryReader:
    """Reads numbers and names of a binary, starting at `at`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Read a byte. Raises UnsupportedBinary at the end."""
        if self.at >= len(self.data):
            raise UnsupportedBinary("truncated")
        value = self.data[self.at]
        self.at += 1
        return value

    def uleb(self) -> int:
        """Read an unsigned LEB128 number. Raises UnsupportedBinary above 35 bits."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise UnsupportedBinary("number of more than 35 bits")

    def sleb(self) -> int:
        """Read a signed LEB128 number. Raises UnsupportedBinary above 35 bits."""
        begin, value = self.at, self.uleb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def name(self) -> bytes:
        """Read a length-prefixed byte string. Raises UnsupportedBinary if truncated."""
        length = self.uleb()
        if self.at + length > len(self.data):
            raise UnsupportedBinary("truncated name")
        self.at += length
        return self.data[self.at - length : self.at]


def read_sections(binary: bytes, header: bytes = MODULE_HEADER) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each section. Raises UnsupportedBinary, also for another header."""
    if not binary.startswith(header):
        raise UnsupportedBinary("not a core module" if header == MODULE_HEADER else "not a component")
    reader = BinaryReader(binary, len(header))
    for _ in range(MAX_SECTIONS):
        if reader.at == len(binary):
            return
        yield reader.byte(), reader.name()
    raise UnsupportedBinary(f"more than {MAX_SECTIONS} sections")


def replace_sections(
    header: bytes, sections: Iterable[tuple[int, bytes]], bodies: Mapping[int, bytes]
) -> bytes:
    """Return a binary of sections (kind and body), with other `bodies` for the sections of some kinds."""
    parts = [header]
    for kind, body in sections:
        replaced = bodies.get(kind, body)
        parts += (bytes([kind]) + uleb(len(replaced)), replaced)
    return b"".join(parts)


def count_imported_functions(reader: BinaryReader) -> int:
    """Read an import section and return its number of functions.

    Raises UnsupportedBinary for any other import.
    """
    count = reader.uleb()
    for _ in range(count):
        reader.name()
        reader.name()
        if reader.byte() != _FUNCTION:
            raise UnsupportedBinary("module with imports other than functions")
        reader.uleb()
    return count


def read_data(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield address and content of each data segment of a data section.

    Raises UnsupportedBinary unless all are active segments of the first memory, with constant addresses.
    """
    reader = BinaryReader(body)
    for _ in range(reader.uleb()):
        if reader.uleb() != 0 or reader.byte() != I32_CONST:
            raise UnsupportedBinary("data segment without a constant address")
        address = reader.sleb() & 0xFFFFFFFF
        if reader.byte() != END:
            raise UnsupportedBinary("data segment without a constant address")
        yield address, reader.name()


def data_segment(address: int, content: bytes) -> bytes:
    """Return an active data segment of the first memory."""
    return bytes([0, I32_CONST]) + sleb(address) + bytes([END]) + name(content)


def uleb(number: int) -> bytes:
    """Return an unsigned number as LEB128."""
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        if not number:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def sleb(number: int) -> bytes:
    """Return a number as signed LEB128, used for constants and for type indices among value types."""
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        if number == (-1 if low & 0x40 else 0):
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def name(text: bytes) -> bytes:
    """Return a byte string with its length as prefix."""
    return uleb(len(text)) + text


def vector(items: Sequence[bytes]) -> bytes:
    """Return items with their number as prefix."""
    return uleb(len(items)) + b"".join(items)


def section(kind: int, body: bytes) -> bytes:
    """Return a section of a module or a component."""
    return bytes([kind]) + uleb(len(body)) + body
