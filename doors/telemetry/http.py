"""HTTP transport of OTLP: content types, decompression with a limit, and response bodies.

Sources: OpenTelemetry Protocol specification, "OTLP/HTTP"; google.rpc.Status and google.rpc.Code for errors.
"""

import json
import zlib
from typing import Literal

from doors.telemetry import otlp_protobuf
from doors.telemetry.signals import REJECTED, Signal
from engine.door import DoorRequest, DoorResponse, Headers

MAX_REQUEST_BYTES = 4 << 20
"""Maximum bytes of a decompressed body."""

Encoding = Literal["json", "protobuf"]
_TYPES: dict[str, Encoding] = {
    "": "json",
    "application/json": "json",
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
}
_RESPONSE_HEADERS: dict[int, Headers] = {405: (("allow", b"POST"),), 429: (("retry-after", b"1"),)}
_WBITS = {"gzip": 31, "deflate": 15}
_INVALID_ARGUMENT, _NOT_FOUND, _RESOURCE_EXHAUSTED, _UNIMPLEMENTED = 3, 5, 8, 12
_CODES = {
    400: _INVALID_ARGUMENT,
    404: _NOT_FOUND,
    405: _UNIMPLEMENTED,
    413: _RESOURCE_EXHAUSTED,
    429: _RESOURCE_EXHAUSTED,
}


class Refused(Exception):
    """A refused request: its HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def encoding_of(request: DoorRequest) -> Encoding:
    """Return the encoding of the body. Raises `Refused`."""
    kind = request.header("content-type").partition(";")[0].strip().lower()
    if kind in _TYPES:
        return _TYPES[kind]
    raise Refused(415, f"content-type is {kind}: send application/x-protobuf or application/json")


def decompressed(request: DoorRequest) -> bytes:
    """Return the decompressed body. Raises `Refused`."""
    coding = request.header("content-encoding").strip().lower()
    if coding in ("", "identity"):
        data = request.body
    elif coding in _WBITS:
        data = _decompress(request.body, coding)
    else:
        raise Refused(415, f"content-encoding is {coding}: send gzip, deflate or none")
    if len(data) > MAX_REQUEST_BYTES:
        raise Refused(413, f"the body has more than {MAX_REQUEST_BYTES} bytes: export smaller batches")
    return data


def accepted(encoding: Encoding, signal: Signal, rejected: int, reason: str) -> DoorResponse:
    """Return the response for accepted records or spans, with the number of rejected ones and a reason."""
    if encoding == "protobuf":
        return DoorResponse(200, otlp_protobuf.response(rejected, reason), _headers(encoding))
    partial = {"partialSuccess": {REJECTED[signal]: str(rejected), "errorMessage": reason}}
    return DoorResponse(200, json.dumps(partial if rejected else {}).encode(), _headers(encoding))


def refusal(encoding: Encoding, refused: Refused) -> DoorResponse:
    """Return the response to a refused request: a google.rpc.Status."""
    code = _CODES.get(refused.status, _INVALID_ARGUMENT)
    if encoding == "protobuf":
        body = otlp_protobuf.status(code, refused.message)
    else:
        body = json.dumps({"code": code, "message": refused.message}).encode()
    return DoorResponse(
        refused.status, body, (*_headers(encoding), *_RESPONSE_HEADERS.get(refused.status, ()))
    )


def _headers(encoding: Encoding) -> Headers:
    return (("content-type", b"application/json" if encoding == "json" else b"application/x-protobuf"),)


def _decompress(data: bytes, coding: str) -> bytes:
    """Return the decompressed data, at most one byte more than the limit. Raises `Refused`."""
    decompressor = zlib.decompressobj(wbits=_WBITS[coding])
    try:
        plain = decompressor.decompress(data, MAX_REQUEST_BYTES + 1)
    except zlib.error:
        raise Refused(400, f"the body is not {coding}, though content-encoding says so") from None
    if not decompressor.eof and len(plain) <= MAX_REQUEST_BYTES:
        raise Refused(400, f"the body ends in the middle of its {coding} data")
    return plain
