"""The Protocol that each Door implements, and the values that cross it.

A Door is a capability of the host that guests reach with ordinary outgoing HTTP, at a reserved host name that
never leaves the process. The engine says on whose behalf a request comes; nothing that a guest sends can.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

DOMAIN = "svc.internal"
"""A Door is reached at `http://<name>.svc.internal`; no name below this domain ever leaves the process."""

Severity = Literal["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """The run that a request comes from, as the engine knows it. Ids as in the timeline."""

    resource: str
    request_id: str
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """One whole request of a guest. `method` is upper case, header names are lower case."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    caller: Caller

    def header(self, name: str) -> str:
        """Return the first value of a header field, or an empty text."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


@dataclass(frozen=True, slots=True)
class DoorResponse:
    """One whole response. The engine adds its length."""

    status: int
    body: bytes = b""
    headers: Headers = (("content-type", b"application/json"),)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One structured record that a guest wrote. `time_ns` counts from the Unix epoch."""

    time_ns: int
    severity: Severity
    body: str
    attributes: Mapping[str, str]
    caller: Caller


@dataclass(frozen=True, slots=True)
class DoorContext:
    """What a Door gets of a Project: its name, a folder of its own (made when needed), the timeline's ear.

    `log` may be called from any thread and never blocks.
    """

    project: str
    folder: Path
    log: Callable[[LogEntry], None] = field(repr=False)


class OpenDoor(Protocol):
    """A Door, opened for one Project."""

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request, on the event loop's thread: at once what takes well under a millisecond.

        Guests' mistakes are answers too (problem documents); what it raises is a fault of the Door.
        """
        ...

    async def aclose(self) -> None:
        """Finish what is under way and let go of every file."""
        ...


class Door(Protocol):
    """One Door. `variables` are the environment variables in which a guest finds its address."""

    name: str
    variables: tuple[str, ...]
    max_body: int

    def open(self, place: DoorContext) -> OpenDoor:
        """Open the Door for one Project; cheap: files are opened when the first request needs them."""
        ...
