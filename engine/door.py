"""Protocol that each Door implements, and the values it exchanges with the engine.

A Door is a built-in service that guests call with ordinary outgoing HTTP, at a reserved host name that is
resolved within the process. The engine identifies the caller; a guest cannot forge it.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from engine.bucket.blobs import Blobs
from engine.grant import Grant
from engine.measurement import MeasurementBatch
from engine.quota import Quota
from engine.trace import Call, RequestTrace

DOMAIN = "svc.internal"
"""A Door answers at `http://<name>.svc.internal`; no name below this domain leaves the process."""

Severity = Literal["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """The resource and request that call a Door. Ids are those of the timeline."""

    resource: str
    request_id: str
    trace_id: str = ""
    span_id: str = ""
    stale_reads: bool = False
    """Whether its reads of tables may miss the last writes of other nodes of a fleet."""
    _: KW_ONLY
    deployment: str = ""


@dataclass(slots=True)
class Session:
    """The session of a client: the sequence of its last write to the tables of a fleet, or 0."""

    written: int = 0


class RunBudget(Protocol):
    """Limits and CPU meter of the run that calls a Door."""

    deadline_ns: int
    """The time of `time.monotonic_ns` at which the run is stopped."""
    memory_limit: int
    """Bytes of memory that the run may use."""
    door_cpu_ns: int
    """CPU time that Doors used for the run, beside what polls of the guest measure. Add on the event loop."""


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """A complete request of a guest. `method` is upper case, header names are lower case.

    `stream` has the body of a request to a Door that streams; its `body` is empty. It raises an error if the
    guest, or the client whose body it passes on, ends it early. `client` marks a request that comes from a
    client of the project, not from its guests.

    `budget` is None outside of runs; such requests have no limits. `call` is the span of the request in the
    trace, whose name, code and details the Door can set, or None. `trace` takes spans of the guest; it is
    None outside of runs.
    """

    method: str
    path: str
    _: KW_ONLY
    query: str = ""
    headers: Headers = ()
    body: bytes = b""
    caller: Caller
    budget: RunBudget | None = None
    call: Call | None = None
    trace: RequestTrace | None = None
    session: Session = field(default_factory=Session)
    stream: AsyncIterator[bytes] | None = None
    client: bool = False
    trusted: bool = False
    """Whether svc itself asks. SQL of such a request can use the tables of Doors."""

    def header(self, name: str) -> str:
        """Return the first value of a header field, or an empty string."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


@dataclass(frozen=True, slots=True)
class DoorResponse:
    """A response. The engine adds the `content-length` of a complete `body`.

    A `stream` replaces the body; it is read as fast as the guest reads, and closed if that stops. An error of
    it ends the response early.
    """

    status: int
    body: bytes = b""
    headers: Headers = (("content-type", b"application/json"),)
    stream: AsyncGenerator[bytes, None] | None = None


class ProblemKind(NamedTuple):
    """The HTTP status and the meaning of a problem code."""

    status: int
    meaning: str


def problem_response(
    status: int, kind: str, detail: str, members: Mapping[str, Any] | None = None, headers: Headers = ()
) -> DoorResponse:
    """Return a problem document (RFC 9457). `kind` is its code, after the name of a Door and a colon."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (*headers, ("retry-after", b"1"))
    document = {
        "type": f"urn:svc:problem:{kind}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": kind.rpartition(":")[2],
        "detail": detail,
        **(members or {}),
    }
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return DoorResponse(status, body, (("content-type", b"application/problem+json"), *headers))


@dataclass(frozen=True, slots=True)
class DoorStorage:
    """The blobs of the service, and a secret that all its processes know, to derive keys from."""

    blobs: Blobs
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A structured log record of a guest, or of the platform about what `grant` would allow.

    `time_ns` counts from the Unix epoch.
    """

    time_ns: int
    severity: Severity
    body: str
    attributes: Mapping[str, str]
    caller: Caller
    _: KW_ONLY
    grant: Grant | None = None


class OpenDoor(Protocol):
    """A Door, opened for one project."""

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request on the event loop: directly if it takes well under a millisecond, else awaitable.

        Mistakes of guests are answered with problem documents; an exception is a fault of the Door.
        """

    async def aclose(self) -> None:
        """Finish requests in progress and close every file."""


@dataclass(frozen=True, slots=True)
class DoorContext:
    """The project that a Door is opened for: its name, and a folder that the Door creates when needed.

    `log` appends to the timeline. It can be called from any thread and never blocks. `measure` adds to the
    metrics of the project (default: discards); call it on the event loop, as `sibling`, which returns another
    Door of the project, and `on_work`, after a commit that changed the tables of a Door. A Door that stores
    blobs needs `storage`.
    """

    project: str
    folder: Path
    log: Callable[[LogEntry], None] = field(repr=False)
    measure: Callable[[MeasurementBatch], None] = field(default=lambda batch: None, repr=False)
    storage: DoorStorage | None = None
    _: KW_ONLY
    sibling: Callable[[str], OpenDoor] = field(default=dict[str, OpenDoor]().__getitem__, repr=False)
    on_work: Callable[[], None] = field(default=lambda: None, repr=False)


@dataclass(frozen=True, slots=True)
class DoorTables:
    """Tables of a Door in the database of each project, which guests do not see.

    One has the name `prefix`, with which those of all begin. `create` are the statements that create them,
    when a statement first names one. Guests can insert into the view `inlet`.
    """

    prefix: str
    inlet: str
    create: tuple[str, ...]


@runtime_checkable
class LimitsStorage(Protocol):
    """An open Door that stores data, within the quota of its project."""

    def limit(self, quota: Quota) -> None:
        """Limit the stored data from the next request on. Call it on the event loop."""


@runtime_checkable
class ReadsTables(OpenDoor, Protocol):
    """An open Door that has the tables of its project."""

    async def glance(self, sql: str, *, fresh: bool = False) -> Any:
        """Return the first value of a query of svc; None if the file or the table does not exist.

        A file that is closed stays closed. With `fresh`, a node of a fleet waits for all that was written.
        Raises `SvcError` if the file cannot be read now.
        """


@dataclass(frozen=True, slots=True)
class Stored:
    """A number of things that a Door stores, their bytes and those of their history; None if unknown."""

    count: int | None = None
    bytes: int | None = None
    log_bytes: int | None = None


class Door(Protocol):
    """One Door. `variables` are the environment variables that give guests its address.

    `purpose` is a phrase, `pages` are those of its documentation in `docs/`, and `problems` its error codes.
    `unit` is the singular of what it stores; of what it adds to the timeline: `record`; or else empty.
    `measure` measures what it and other Doors store for the project with a data folder, by their names. It
    blocks. A Door that `streams` takes the bodies of requests as streams, as soon as they begin, and answers
    clients: it checks what a request with `client` may do. Its `max_body` is not used.
    """

    name: str
    purpose: str
    pages: tuple[str, ...]
    unit: str = ""
    variables: tuple[str, ...]
    max_body: int
    streams: bool = False
    problems: Mapping[str, ProblemKind] = MappingProxyType({})
    measure: Callable[[Path], Mapping[str, Stored]] = staticmethod(lambda data: {})

    def open(self, context: DoorContext) -> OpenDoor:
        """Open the Door for one project. Files are opened by the first request that needs them."""
