"""The telemetry Door: it receives OTLP/HTTP logs, traces and metrics of guests, and writes them to the
timeline.

The engine decides to which request a record or span belongs. A trace id from the guest becomes an attribute.
"""

import asyncio
import json
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Literal

from doors.telemetry import otlp_protobuf
from doors.telemetry.otlp_json import JsonReader
from doors.telemetry.signals import (
    MESSAGES,
    REJECTED,
    SIGNALS,
    CumulativeValues,
    LimitExceeded,
    Reader,
)
from engine.door import Door, DoorContext, DoorRequest, DoorResponse, Headers, LogEntry, OpenDoor
from engine.measurement import MeasurementBatch
from engine.trace import TraceEnded

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
        self.status, self.message = status, message


def encoding_of(request: DoorRequest) -> Encoding:
    """Return the encoding of the body. Raises `Refused`, also for a path or method without records."""
    if request.path not in SIGNALS:
        raise Refused(404, f"{request.path} does not exist: use {', '.join(SIGNALS)}")
    if request.method != "POST":
        raise Refused(405, f"{request.method} is not allowed: use POST")
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
        decompressor = zlib.decompressobj(wbits=_WBITS[coding])
        try:
            data = decompressor.decompress(request.body, MAX_REQUEST_BYTES + 1)
        except zlib.error:
            raise Refused(400, f"the body is not {coding}, though content-encoding says so") from None
        if not decompressor.eof and len(data) <= MAX_REQUEST_BYTES:
            raise Refused(400, f"the body ends in the middle of its {coding} data")
    else:
        raise Refused(415, f"content-encoding is {coding}: send gzip, deflate or none")
    if len(data) > MAX_REQUEST_BYTES:
        raise Refused(413, f"the body has more than {MAX_REQUEST_BYTES} bytes: export smaller batches")
    return data


def accepted(encoding: Encoding, read: Reader) -> DoorResponse:
    """Return the response for accepted records or spans, with the number of rejected ones and a reason."""
    rejected, reason = read.rejected, read.reason
    if encoding == "protobuf":
        return DoorResponse(200, otlp_protobuf.response(rejected, reason), _headers(encoding))
    partial = {"partialSuccess": {REJECTED[read.signal]: str(rejected), "errorMessage": reason}}
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


QUICK_BYTES = {"json": 10 << 10, "protobuf": 2 << 10}
QUICK_OBJECTS = 512
"""Maximum bytes and JSON objects parsed on the event loop, in under 0.5 ms: a guest library's batch."""

MAX_WAITING_BYTES = 32 << 20
"""Maximum bytes of queued requests. Exporters retry after a 429."""

_READERS: dict[Encoding, type[Reader]] = {"json": JsonReader, "protobuf": otlp_protobuf.ProtobufReader}


class TelemetryDoor(Door):
    """The Door for OTLP/HTTP. `now_ns` returns the Unix time in nanoseconds."""

    name = "telemetry"
    purpose = "logs, spans and metrics over OTLP"
    pages = ("guides/build/opentelemetry.md", "reference/otlp.md")
    unit = "record"
    variables = ("SVC_TELEMETRY_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    max_body = MAX_REQUEST_BYTES

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns

    def open(self, context: DoorContext) -> OpenDoor:
        return _Telemetry(context, self._now_ns)


class _Telemetry:
    def __init__(self, context: DoorContext, now_ns: Callable[[], int]) -> None:
        self._log = context.log
        self._measure = context.measure
        self._cumulative = CumulativeValues()
        self._now_ns = now_ns
        self._lock = asyncio.Lock()
        self._in_progress: dict[asyncio.Task[DoorResponse], DoorRequest] = {}
        self._loaded: set[Encoding] = {"json"}

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request: small ones synchronously, others one at a time in a thread."""
        encoding: Encoding = "json"
        try:
            encoding = encoding_of(request)
            if self._is_quick(request, encoding):
                return self._store(request, encoding, self._read(request, encoding))
            if sum(len(waiting.body) for waiting in self._in_progress.values()) > MAX_WAITING_BYTES:
                raise Refused(429, "too many records are queued: try again")
        except Refused as refused:
            return refusal(encoding, refused)
        # The guest may end before the answer; its records are still logged.
        task = asyncio.get_running_loop().create_task(self._process_in_thread(request, encoding))
        self._in_progress[task] = request
        task.add_done_callback(self._in_progress.pop)
        return asyncio.shield(task)

    async def aclose(self) -> None:
        while self._in_progress:
            await asyncio.wait(self._in_progress)

    def _is_quick(self, request: DoorRequest, encoding: Encoding) -> bool:
        """Return whether a request is small and overtakes no other of the same caller."""
        compressed = request.header("content-encoding") not in ("", "identity")
        if compressed or encoding not in self._loaded or len(request.body) > QUICK_BYTES[encoding]:
            return False
        if request.body.count(b"{") > QUICK_OBJECTS:
            return False
        return all(waiting.caller != request.caller for waiting in self._in_progress.values())

    async def _process_in_thread(self, request: DoorRequest, encoding: Encoding) -> DoorResponse:
        """Read a body in a thread, one at a time to bound memory.

        The first protobuf body is always read here, because the import of its reader is slow.
        """
        try:
            async with self._lock:
                read = await asyncio.to_thread(self._read, request, encoding)
        except Refused as refused:
            return refusal(encoding, refused)
        finally:
            self._loaded.add(encoding)
        return self._store(request, encoding, read)

    def _read(self, request: DoorRequest, encoding: Encoding) -> Reader:
        """Return the valid parts of a request. Raises `Refused` if the document is invalid."""
        signal, added = SIGNALS[request.path], self._cumulative.added
        reader = _READERS[encoding](signal, request.caller, self._now_ns())
        try:
            reader.read(decompressed(request))
        except LimitExceeded as most:
            raise Refused(413, f"the request has more than {most}: export smaller batches") from None
        except ValueError as error:
            raise Refused(400, f"the body is not an {MESSAGES[signal]}: {error}") from None
        reader.measurements = [
            added(request.caller, point) if is_total else point for point, is_total in reader.points
        ]
        return reader

    def _store(self, request: DoorRequest, encoding: Encoding, read: Reader) -> DoorResponse:
        """Log what a request has, and add its spans and measurements, on the event loop."""
        for entry in read.entries:
            self._log(entry)
        if points := tuple(read.measurements):
            self._measure(MeasurementBatch(self._now_ns(), request.caller.resource, points))
        if read.spans and request.trace is not None:
            try:
                omitted = request.trace.add_spans(read.spans)
            except TraceEnded:
                body = f"spans were dropped: {len(read.spans)} arrived after the end of the request"
                self._log(LogEntry(self._now_ns(), "WARN", body, {}, request.caller))
                omitted = len(read.spans)
            if omitted:
                read.reject("the request has ended, or has the maximum of spans", omitted)
        return accepted(encoding, read)
