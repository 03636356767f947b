"""Sends a recorded request anew to what serves now, through the same gateway as every other.

Owns what of a recording is sent, and how its answer is gathered. It is a request like any other: it runs, is
metered and recorded; what it changes, it changes again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from engine.errors import SvcError
from engine.gateway.app import GONE, REQUEST_ID, Cut
from engine.gateway.tracing import request_id
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record
from engine.timeline.recording import MAX_BODY_BYTES, REDACTED_VALUE, RecordedExchange, Recording, to_exchange
from engine.wasm.execution.request import Receive, Send

SECONDS = 60.0
"""How long an answer may take before its client is taken to have left."""
MOST_RECORDS = 20_000
_OWN = frozenset({"traceparent", "tracestate", "x-request-id"})
"""Header fields that say which request it was."""

Application = Callable[[dict[str, Any], Receive, Send], Coroutine[Any, Any, None]]


class NotReplayable(SvcError):
    """A part of the request was not kept."""

    code = "not-replayable"


@dataclass(frozen=True, slots=True)
class Replay:
    """How it went: the new request and its response, and what the timeline has of it so far.

    `left_out` names the header fields whose values had been hidden, and which were not sent.
    """

    exchange: RecordedExchange
    left_out: tuple[str, ...]
    records: tuple[Record, ...]


def mark(request_id: str) -> str:
    """Return what the timeline says of a request that is a replay of another."""
    return f"replay of {request_id}"


class Replayer:
    """Sends requests anew to one Project in this process. Use on its event loop."""

    def __init__(self, gateway: Application, timeline: TimelineBus, seconds: float = SECONDS) -> None:
        self._gateway = gateway
        self._timeline = timeline
        self._seconds = seconds

    async def replay(self, kept: RecordedExchange, redact: frozenset[str]) -> Replay:
        """Send a request anew and return its answer. Raises `NotReplayable`.

        `redact` names header fields that are hidden in what is returned, besides those that always are.
        """
        if not kept.request.complete:
            raise NotReplayable(
                f"request {kept.request_id} can not be sent anew:"
                f" only the first {len(kept.request.body)} bytes of its body were recorded",
                f"Bodies are recorded as far as they are read, up to {MAX_BODY_BYTES} bytes.",
            )
        own, found = request_id(), list[Record]()

        def follow(record: Record) -> None:
            if record.request_id == own and len(found) < MOST_RECORDS:
                found.append(record)

        unfollow = self._timeline.subscribe(follow)
        try:
            self._timeline.append(PlatformRecord(time.time_ns(), "", "INFO", mark(kept.request_id), own))
            recording = await self._ask(kept, own, redact)
        finally:
            unfollow()
        left_out = sorted({name for name, value in kept.request.headers if value == REDACTED_VALUE})
        return Replay(to_exchange(recording), tuple(left_out), tuple(found))

    async def _ask(self, kept: RecordedExchange, own: str, redact: frozenset[str]) -> Recording:
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in kept.request.headers
            if value != REDACTED_VALUE and name not in _OWN
        ]
        path, _, query = kept.target.partition("?")
        said = ("", own, time.time_ns(), kept.method, kept.scheme, kept.authority, kept.target)
        recording = Recording(*said, headers, redact)
        message = {"type": "http.request", "body": kept.request.body, "more_body": False}
        recording.add_request_message(message)
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": kept.method,
            "scheme": kept.scheme,
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": headers,
            "extensions": {REQUEST_ID: own, GONE: left},
        }
        parts = iter((message,))

        async def receive() -> dict[str, Any]:
            part = next(parts, None)
            if part is None:
                await asyncio.shield(left)
                return {"type": "http.disconnect"}
            return part

        async def send(message: dict[str, Any]) -> None:
            recording.add_response_message(message)

        answering = asyncio.ensure_future(self._gateway(scope, receive, send))
        try:
            await asyncio.wait({answering}, timeout=self._seconds)
        finally:
            left.set_result(None)
            await asyncio.wait({answering})  # a guest that is told that its client left has little time
            failure = answering.exception()
        if failure is not None and not isinstance(failure, Cut):  # a cut is told by the response
            raise failure
        return recording
