"""Routes for recorded requests and their replay.

Available in development only: a service does not record bodies.
"""

import asyncio
import re
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from engine.control.app import Routes
from engine.control.errors import NotFound
from engine.control.projects import Projects
from engine.control.schemas import StrictModel
from engine.dev.project import DevProject
from engine.errors import SvcError
from engine.gateway.replay import Replayer
from engine.manifest import MANIFEST
from engine.timeline import database
from engine.timeline.query import RecordFilter, open_reader
from engine.timeline.record import Document, document, encode
from engine.timeline.recording import MAX_BODY_BYTES, RecordedExchange, RecordedMessage, exchange_document
from engine.timeline.recording import encode as encode_exchange

MAX_RECORDS = 20_000
MAX_HEADERS, MAX_TARGET_LENGTH = 100, 8192
"""Maximum header fields of an edited request, and characters of its target."""
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
Header = Annotated[tuple[str, str], WithJsonSchema(_PAIR)]
"""Name in lower case, and value. OpenAPI tools reject pydantic's own schema of a pair."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]{0,8192}")


class RecordedRequestOut(StrictModel):
    """A request as its client sent it.

    `headers` are pairs of a lower-case name and a value, `[redacted]` if the value was not recorded. `body`
    is base64, `size` the number of bytes read. `truncated` means that the body is incomplete:
    at most the first 64 KiB are recorded.
    """

    method: str
    target: str
    scheme: str
    authority: str
    headers: list[Header]
    body: str
    size: int
    truncated: bool


class RecordedResponseOut(StrictModel):
    """A response, with the members of a request. `complete` is false if it was aborted."""

    status: int
    headers: list[Header]
    body: str
    size: int
    truncated: bool
    complete: bool


class RecordedExchangeOut(StrictModel):
    """A request, its response and its log records.

    `response` is `null` without a response. `replay_of` is the id of the replayed request. `wall_ns` is the
    total time, `compute_ns` the sum over all resources, `peak_memory` (bytes) the maximum of one resource.
    `code` is the platform's error code, or empty. `records` have the format of
    docs/reference/logs-json.md; those of a new replay have the cursor 0.
    """

    request_id: str
    time: str
    replay_of: str | None
    request: RecordedRequestOut
    response: RecordedResponseOut | None
    code: str
    wall_ns: int
    compute_ns: int
    peak_memory: int | None
    records: list[dict[str, Any]]


class ReplayOut(RecordedExchangeOut):
    """A replayed request. `omitted_headers` names header fields whose values are not in memory: not sent."""

    omitted_headers: list[str]


class OriginalOut(StrictModel):
    """A request with its credentials: `head` is JSON of all but both bodies, which are base64."""

    head: str
    request: str
    response: str


class EditedRequest(StrictModel):
    """A request to send instead of a recorded one. `headers` are pairs, `body` is base64.

    Fields with the value `[redacted]` have the value that the client sent, while it is in memory.
    `content-length` follows from the body, and a missing `host` from the recording.
    """

    method: Annotated[str, StringConstraints(pattern="^[A-Z]{1,20}$")]
    target: Annotated[str, StringConstraints(pattern='^/[!"$-~]*$', max_length=MAX_TARGET_LENGTH)]
    headers: Annotated[list[list[str]], Field(max_length=MAX_HEADERS)]
    body: Annotated[str, StringConstraints(max_length=MAX_BODY_BYTES * 4 // 3 + 4)]

    def applied(self, exchange: RecordedExchange) -> RecordedExchange:
        """Return a recording with this request. Raises `SvcError`."""
        try:
            body = b64decode(self.body, validate=True)
        except ValueError as error:
            raise SvcError("the body is not base64", code="invalid") from error
        headers = [_header(field) for field in self.headers]
        headers = [field for field in headers if field[0] not in ("content-length", "transfer-encoding")]
        headers += [("content-length", str(len(body)))] if body else []
        if not any(name == "host" for name, _ in headers):
            headers.append(("host", exchange.authority))
        request = RecordedMessage(tuple(headers), body, len(body), ended=True)
        return replace(exchange, method=self.method, target=self.target, request=request)


def _header(field: list[str]) -> tuple[str, str]:
    if len(field) != 2 or not _HEADER_NAME.fullmatch(field[0]) or not _HEADER_VALUE.fullmatch(field[1]):
        hint = "Use a lower-case name."
        raise SvcError(f"{': '.join(field)[:100]!r} is not a header field", hint, code="invalid")
    return field[0], field[1]


def blueprint(projects: Projects, dev: DevProject, replayer: Replayer) -> Routes:
    """Return the routes."""
    routes = Routes("requests", __name__)

    async def read(project: str, id: str) -> tuple[RecordedExchange, list[Document]]:
        return await asyncio.to_thread(_read, projects.data_dir(project) / database.TIMELINE_FILE, id)

    @routes.get("/v1/projects/<project>/requests/<id>", "viewer")
    async def recorded(project: str, id: str) -> RecordedExchangeOut:
        """Return a recorded request and its response. Requires the role viewer."""
        return RecordedExchangeOut(**exchange_document(*await read(project, id)))

    @routes.get("/v1/projects/<project>/requests/<id>/original", "deployer")
    async def original(project: str, id: str) -> OriginalOut:
        """Return a recent request with its credentials, from memory. Empty for older ones.

        Requires the role deployer.
        """
        if (exchange := replayer.original(id)) is None:
            await read(project, id)  # Raises if the request is unknown.
        head, *bodies = encode_exchange(exchange) if exchange is not None else ("", b"", b"")
        request, response = (b64encode(body).decode() for body in bodies)
        return OriginalOut(head=head, request=request, response=response)

    @routes.post("/v1/projects/<project>/requests/<id>/replay", "deployer")
    async def replay(project: str, id: str) -> ReplayOut:
        """Send a recorded request to the current project again; responds when it is complete.

        Requires the role deployer. A request with an incomplete body is rejected (`not-replayable`).
        """
        return await _replayed((await read(project, id))[0])

    @routes.post("/v1/projects/<project>/requests/<id>/resend", "deployer")
    async def resend(project: str, id: str, data: EditedRequest) -> ReplayOut:
        """Send an edited form of a recorded request, like a replay. Requires the role deployer."""
        return await _replayed(data.applied((await read(project, id))[0]))

    async def _replayed(exchange: RecordedExchange) -> ReplayOut:
        names = dev.project.recorded or frozenset()
        done = await replayer.replay(replayer.restored(exchange, names), names)
        records = [document(0, encode(record)) for record in done.records]
        return ReplayOut(
            **exchange_document(done.exchange, records), omitted_headers=list(done.omitted_headers)
        )

    return routes


def _read(path: Path, request_id: str) -> tuple[RecordedExchange, list[Document]]:
    reader = open_reader(path)
    if reader is not None:
        with closing(reader):
            exchange = reader.exchange(request_id)
            if exchange is not None:
                return exchange, reader.after(0, RecordFilter(request_id=request_id), MAX_RECORDS).entries
    raise NotFound(
        f"request {request_id} is not recorded",
        f"Requests are recorded in development, up to 50 per second, unless {MANIFEST} sets"
        " `record_bodies = false`; the oldest are removed first.",
    )
