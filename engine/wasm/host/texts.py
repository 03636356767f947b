"""Texts that cross between the host and the WASI library: lists of fields, and error codes.

The parts of a text end with a zero byte. Values of header fields, which may have any bytes, are written as
the UTF-8 of latin-1. The host does not trust a text: a guest's own code could have produced it.
"""

import re
from collections.abc import Iterable

from engine.wasm.execution.run_state import Trap
from engine.wasm.outbound.messages import ErrorCode, Items

_FIELD = rb"[!#$%&'*+\-.^_`|~0-9a-z]+\0[\t\x20-\x7e\x80-\xff]*\0"
_EXPLAINED = {"internal-error", "HTTP-response-transfer-coding", "HTTP-response-content-coding"}
"""Error codes whose payload is a text; the payload of others is a number."""
_FIELDS = re.compile(rb"(?:%b)*" % _FIELD)


def encode_fields(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return names and values as a text."""
    text = b"".join([b"%b\0%b\0" % item for item in items])
    return text if text.isascii() else text.decode("latin-1").encode()


def parse_fields(text: bytes) -> Items:
    """Return names and values of a text. Raises Trap if one is invalid."""
    if not _FIELDS.fullmatch(text):
        raise Trap("it sent invalid header fields")
    if not text.isascii():
        try:
            text = text.decode().encode("latin-1")
        except UnicodeError:
            raise Trap("it sent header fields with characters beyond latin-1") from None
    parts = text.split(b"\0")
    return list(zip(parts[:-1:2], parts[1::2], strict=True))


def encode_error(code: ErrorCode) -> bytes:
    """Return an error code as a text: its name, and its payload if that has a value."""
    name, payload = code
    if isinstance(payload, tuple):  # records: the last member is a message
        payload = payload[-1]
    return name.encode() if payload is None else f"{name}\0{payload}".encode()


def parse_error(text: bytes) -> ErrorCode:
    """Return the error code of a text, with a payload that is a text or a number."""
    name, _, rest = text.decode(errors="replace").partition("\0")
    if name in _EXPLAINED:
        return name, rest or None
    return name, int(rest) if rest.isdecimal() else None
