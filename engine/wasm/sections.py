"""Writes the parts of WebAssembly binaries: numbers, names, vectors, sections (core and component alike)."""

from collections.abc import Sequence


def leb(number: int) -> bytes:
    """Return an unsigned number as LEB128."""
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        if not number:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def signed(number: int) -> bytes:
    """Return a number that is not negative as signed LEB128, as a type's index stands among value types."""
    out = leb(number)
    # The highest bit of the last seven is the sign.
    return out[:-1] + bytes([out[-1] | 0x80, 0]) if out[-1] & 0x40 else out


def name(text: bytes) -> bytes:
    """Return a text with its length in front."""
    return leb(len(text)) + text


def vector(items: Sequence[bytes]) -> bytes:
    """Return items with their number in front."""
    return leb(len(items)) + b"".join(items)


def section(kind: int, body: bytes) -> bytes:
    """Return a section of a module or a component."""
    return bytes([kind]) + leb(len(body)) + body
