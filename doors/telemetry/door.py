"""The telemetry Door: it receives OTLP/HTTP logs of guests and writes them to the timeline.

The engine decides to which request a record belongs. A trace id from the guest becomes an attribute.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from doors.telemetry import otlp_json, otlp_protobuf
from doors.telemetry.http import (
    MAX_REQUEST_BYTES,
    Encoding,
    Refused,
    accepted,
    decompressed,
    encoding_of,
    refusal,
)
from doors.telemetry.record import MAX_PARTS, BadRecord, LimitExceeded, entry_of
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, LogEntry, OpenDoor

QUICK_BYTES = {"json": 10 << 10, "protobuf": 2 << 10}
QUICK_OBJECTS = 512
"""Maximum bytes and JSON objects parsed on the event loop, in under 0.5 ms: a guest library's batch."""

MAX_WAITING_BYTES = 32 << 20
"""Maximum bytes of queued requests. Exporters retry after a 429."""

_READERS = {"json": otlp_json.read, "protobuf": otlp_protobuf.read}
_DROPPED = {"/v1/traces": "traces", "/v1/metrics": "metrics"}


class TelemetryDoor:
    """The Door for OTLP/HTTP logs. `now_ns` returns the Unix time in nanoseconds."""

    name = "telemetry"
    variables: tuple[str, ...] = ("SVC_TELEMETRY_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    max_body = MAX_REQUEST_BYTES

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns

    def open(self, context: DoorContext) -> OpenDoor:
        """Open the Door for one project, without files."""
        return _Telemetry(context, self._now_ns)


class _Telemetry:
    def __init__(self, context: DoorContext, now_ns: Callable[[], int]) -> None:
        self._log = context.log
        self._now_ns = now_ns
        self._lock = asyncio.Lock()
        self._in_progress: dict[asyncio.Task[DoorResponse], DoorRequest] = {}
        self._warned: set[tuple[str, str]] = set()
        self._loaded: set[Encoding] = {"json"}

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request: small ones synchronously, others one at a time in a thread."""
        encoding: Encoding = "json"
        try:
            self._check(request)
            encoding = encoding_of(request)
        except Refused as refused:
            return refusal(encoding, refused)
        if request.path in _DROPPED:
            self._drop(_DROPPED[request.path], request.caller)
            return accepted(encoding, 0, "")
        if self._is_quick(request, encoding):
            return self._process(request, encoding)
        if sum(len(waiting.body) for waiting in self._in_progress.values()) > MAX_WAITING_BYTES:
            return refusal(encoding, Refused(429, "too many records are queued: try again"))
        # The guest may end before the answer; its records are still logged.
        task = asyncio.get_running_loop().create_task(self._process_in_thread(request, encoding))
        self._in_progress[task] = request
        task.add_done_callback(self._in_progress.pop)
        return asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for the requests in progress."""
        while self._in_progress:
            await asyncio.wait(self._in_progress)

    def _check(self, request: DoorRequest) -> None:
        if request.path != "/v1/logs" and request.path not in _DROPPED:
            raise Refused(404, f"{request.path} does not exist: logs go to /v1/logs")
        if request.method != "POST":
            raise Refused(405, f"{request.method} is not allowed: use POST")

    def _is_quick(self, request: DoorRequest, encoding: Encoding) -> bool:
        """Return whether a request is small and overtakes no other of the same caller."""
        compressed = request.header("content-encoding") not in ("", "identity")
        if compressed or encoding not in self._loaded or len(request.body) > QUICK_BYTES[encoding]:
            return False
        if request.body.count(b"{") > QUICK_OBJECTS:
            return False
        return all(waiting.caller != request.caller for waiting in self._in_progress.values())

    def _drop(self, signal: str, caller: Caller) -> None:
        """Log once for each resource that a signal is not stored."""
        if (signal, caller.resource) not in self._warned:
            self._warned.add((signal, caller.resource))
            body = f"exported {signal} were discarded: svc stores only logs"
            self._log(LogEntry(self._now_ns(), "WARN", body, {}, caller))

    async def _process_in_thread(self, request: DoorRequest, encoding: Encoding) -> DoorResponse:
        """Read a body in a thread, one at a time to bound memory.

        The first protobuf body is always read here, because the import of its reader is slow.
        """
        async with self._lock:
            answer = await asyncio.to_thread(self._process, request, encoding)
        self._loaded.add(encoding)
        return answer

    def _process(self, request: DoorRequest, encoding: Encoding) -> DoorResponse:
        """Log the valid records of a request, or none if the document is invalid."""
        entries: list[LogEntry] = []
        rejected, reason, number = 0, "", 0
        now_ns = self._now_ns()
        try:
            for number, (record, shared) in enumerate(_READERS[encoding](decompressed(request)), 1):
                if isinstance(record, BadRecord):
                    rejected += 1
                    reason = reason or f"record {number}: {record}"
                else:
                    entries.append(entry_of(record, shared, now_ns, request.caller))
        except Refused as refused:
            return refusal(encoding, refused)
        except LimitExceeded:
            message = f"the request has more than {MAX_PARTS} records: export smaller batches"
            return refusal(encoding, Refused(413, message))
        except ValueError as error:
            return refusal(encoding, Refused(400, f"the body is not an ExportLogsServiceRequest: {error}"))
        for entry in entries:
            self._log(entry)
        return accepted(encoding, rejected, reason)
