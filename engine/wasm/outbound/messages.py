"""Outgoing requests of guests, the responses to them, and texts that cross between the host and the library.

The texts are lists of fields, and error codes. Their parts end with a zero byte. Values of header fields,
which may have any bytes, are written as the UTF-8 of latin-1. The host does not trust a text: a guest's own
code could have produced it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.wasm.execution.buffers import InputBuffer, OutputBuffer
from engine.wasm.execution.run_state import RunState, Trap

MAX_CONCURRENT_REQUESTS = 128
"""Maximum number of pending outgoing requests of one run."""
FORBIDDEN = frozenset({
    b"connection", b"host", b"http2-settings", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""Connection-level field names, which only the host sets."""
_PATH = re.compile(r"[/?][!\"$-~]*")
Items = list[tuple[bytes, bytes]]
ErrorCode = tuple[str, Any]
"""A case of wasi:http's `error-code`, with its payload."""


def is_path(text: str) -> bool:
    """Return whether a text is a valid path or query of a request target."""
    return _PATH.fullmatch(text) is not None


class RequestRefused(Exception):
    """A request that fails at once; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request as the guest sent it. Timeouts are in nanoseconds; `None` selects the host's default.

    `path` has the query, and is empty for "/". `body` is None for a request without one.
    """

    method: str
    scheme: str
    authority: str
    path: str
    headers: Items
    body: OutputBuffer | None = None
    connect_timeout: int | None = None
    first_byte_timeout: int | None = None
    between_bytes_timeout: int | None = None


@dataclass(frozen=True, slots=True)
class IncomingResponse:
    """A received response head, with its body."""

    status: int
    headers: Items
    body: InputBuffer


class FutureResponse:
    """A pending response, from `origin` if that is set; `result` becomes the response, or an error code."""

    __slots__ = ("cancel", "origin", "result")

    def __init__(self, origin: str = "") -> None:
        self.origin = origin
        self.result: IncomingResponse | ErrorCode | None = None
        self.cancel: Callable[[], Any] | None = None

    def ready(self) -> bool:
        return self.result is not None

    def settle(self, run: RunState, result: IncomingResponse | ErrorCode) -> None:
        """Set the result. Only the first call has an effect."""
        if self.result is None:
            self.result = result
            if isinstance(result, tuple):
                if len(run.failures) == MAX_CONCURRENT_REQUESTS:
                    run.failures.clear()
                run.failures[self.origin] = result[0]
            run.waiting -= 1
            run.wake()

    def drop(self, run: RunState) -> None:
        """Cancel the request, whose response the guest will not take."""
        if self.result is None:
            self.result = ("connection-terminated", None)
            run.waiting -= 1
        if self.cancel is not None:
            run.on_loop(self.cancel)


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
