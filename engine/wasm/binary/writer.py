"""Encoders for parts of WebAssembly binaries: numbers, names, vectors and sections (core and component)."""

from collections.abc import Sequence


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
