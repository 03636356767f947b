"""Replay of recorded requests through the gateway.

A replayed request is metered and recorded like any other.
"""

import asyncio
import time
from dataclasses import dataclass

from engine.errors import SvcError
from engine.gateway.routes import internal_resource
from engine.gateway.traced_exchange import TracedExchange, request_id
from engine.http.exchange import Handler, MemoryExchange, Request
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record
from engine.timeline.recording import (
    MAX_BODY_BYTES,
    REDACTED_VALUE,
    REPLAY_NOTE,
    RecordedExchange,
    Recording,
    original,
    restored,
    to_exchange,
)

REPLAY_TIMEOUT_SECONDS = 60.0
"""How long a response may take before the replayed request counts as disconnected."""
MAX_RECORDS = 20_000
MAX_REMEMBERED, MAX_REMEMBERED_BYTES = 1000, 32 << 20
"""Maximum recent requests that stay in memory with their credentials, and their size."""
_REPLACED_HEADERS = frozenset({"traceparent", "tracestate", "x-request-id"})
"""Header fields that identify the original request."""


class NotReplayable(SvcError):
    """A part of the request was not recorded."""

    code = "not-replayable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A replayed request with its response and its records.

    `omitted_headers` names the header fields that were not sent because their values are no longer in memory.
    """

    exchange: RecordedExchange
    omitted_headers: tuple[str, ...]
    records: tuple[Record, ...]


class Replayer:
    """Replays requests of one project in this process. Use on its event loop.

    Recent requests stay in memory as they were: their credentials are not recorded, and a replay sends them.
    """

    def __init__(
        self, gateway: Handler, timeline: TimelineBus, seconds: float = REPLAY_TIMEOUT_SECONDS
    ) -> None:
        self._gateway = gateway
        self._timeline = timeline
        self._seconds = seconds
        self._recent: dict[str, Recording] = {}
        self._bytes = 0
        timeline.recordings.subscribe(self._remember)

    def _remember(self, recording: Recording) -> None:
        self._recent[recording.request_id] = recording
        self._bytes += recording.weight
        while len(self._recent) > MAX_REMEMBERED or self._bytes > MAX_REMEMBERED_BYTES:
            self._bytes -= self._recent.pop(next(iter(self._recent))).weight

    def original(self, request_id: str) -> RecordedExchange | None:
        """Return a recent request with its credentials."""
        recording = self._recent.get(request_id)
        return None if recording is None else original(recording)

    def restored(self, recorded: RecordedExchange, redact: frozenset[str]) -> RecordedExchange:
        """Return a recorded or edited request with its credentials. Raises `NotReplayable`.

        Header fields may lack theirs; without the values in path and body, it would be another request.
        """
        request_id = recorded.request_id
        recorded, unknown = restored(recorded, self.original(request_id), redact)
        if unknown:
            raise NotReplayable(
                f"request {request_id} cannot be replayed:"
                f" the value of {', '.join(unknown)} is no longer in the memory of svc dev",
                "Edit the request in Logs, or send it again.",
            )
        return recorded

    async def replay(self, recorded: RecordedExchange, redact: frozenset[str]) -> Replay:
        """Send a recorded request again and return its response. Raises `NotReplayable`.

        `redact` has names whose values are hidden in the result, besides those that always are.
        """
        if not recorded.request.complete:
            raise NotReplayable(
                f"request {recorded.request_id} cannot be replayed:"
                f" only the first {len(recorded.request.body)} bytes of its body were recorded",
                f"Bodies are recorded as far as they are read, up to {MAX_BODY_BYTES} bytes.",
            )
        new_id, records = request_id(), list[Record]()

        def collect(record: Record) -> None:
            if record.request_id == new_id and len(records) < MAX_RECORDS:
                records.append(record)

        unsubscribe = self._timeline.subscribe(collect)
        try:
            note = f"{REPLAY_NOTE}{recorded.request_id}"
            self._timeline.append(PlatformRecord(time.time_ns(), "", "INFO", note, new_id))
            recording = await self._send(recorded, new_id, redact)
        finally:
            unsubscribe()
        omitted = sorted({name for name, value in recorded.request.headers if value == REDACTED_VALUE})
        return Replay(to_exchange(recording), tuple(omitted), tuple(records))

    async def _send(self, recorded: RecordedExchange, new_id: str, redact: frozenset[str]) -> Recording:
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in recorded.request.headers
            if value != REDACTED_VALUE and name not in _REPLACED_HEADERS
        ]
        path, _, query = recorded.target.partition("?")
        request = Request(
            method=recorded.method,
            scheme=recorded.scheme,
            path=path,
            query=query.encode("latin-1"),
            headers=headers,
            id=new_id,
            resource=internal_resource(recorded.authority),
        )
        replayed = TracedExchange(MemoryExchange(request, recorded.request.body), "")
        recording = replayed.record("", redact)
        # All of the body is sent, however much of it is read.
        replayed.body.observer = None
        recording.body.add(recorded.request.body, ended=True)
        handling = asyncio.ensure_future(self._gateway(replayed))
        try:
            await asyncio.wait({handling}, timeout=self._seconds)
        finally:
            replayed.disconnected.set()
            await asyncio.wait({handling})  # A guest has little time once its client has disconnected.
            failure = handling.exception()
        if failure is not None:
            raise failure
        return recording
