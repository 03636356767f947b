"""What a fleet and its workers say to each other, over a socket that nobody else can reach.

Values are pickled: both ends are this program, and what guests say crosses only as strings.
"""

import asyncio
import copyreg
import pickle
import socket
import struct
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from engine.deploy.doors import DoorUsage
from engine.deploy.versions import Publication
from engine.gateway.app import MAX_BODY
from engine.http.connection_limits import PER_ADDRESS
from engine.http.tls import Certificate
from engine.lane import BuildMode
from engine.timeline.record import Record, RequestRecord
from engine.timeline.recording import Recording

_HEAD = struct.Struct("<Q")
_values = attrgetter(*RequestRecord.__slots__)


def _reduced(record: RequestRecord) -> tuple[type[RequestRecord], tuple[Any, ...]]:
    return RequestRecord, _values(record)


# There is one for each request. As its values alone it takes 2 µs both ways, in place of 5.
copyreg.pickle(RequestRecord, _reduced)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How to serve: the first thing that a worker is told.

    `data` is the folder of the Project's data or, with `many`, of a folder for each Project's; `grace` is in
    seconds; `per_address` is how many connections one address may have, 0 for no limit; `scheme` is how
    callers reach what is in front, where that has TLS; `max_body` is the most bytes a request may carry.
    """

    multi_project: bool
    data: Path
    cache: Path
    mode: BuildMode
    domain: str
    dev: bool
    grace: float
    certificate: Certificate | None = None
    per_address: int = PER_ADDRESS
    scheme: str = ""
    max_body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class Publish:
    """Serve this from now on, and answer `Published` with the number."""

    number: int
    publication: Publication


@dataclass(frozen=True, slots=True)
class Serve:
    """All that is live has been said: take connections."""


@dataclass(frozen=True, slots=True)
class Published:
    """Said by a worker when every new request sees the publication."""

    number: int


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """What happened in a worker, in one Project, since it said so last."""

    project: str
    records: list[Record | Recording]
    uses: DoorUsage
    """How often Doors were asked since then."""


@dataclass(frozen=True, slots=True)
class WorkerWarning:
    """Something for the service's own log: a warning or a fault of a worker."""

    text: str


class Channel:
    """One end of the conversation."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> "Channel":
        """Take one end of a socket pair."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Any) -> None:
        """Have a message leave soon; one to a process that has ended is lost."""
        data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._writer.write(_HEAD.pack(len(data)) + data)

    async def drain(self) -> None:
        """Wait until the other end takes what was sent, or has ended."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> Any:
        """Return the next message, or `None` when the other end is gone."""
        try:
            (size,) = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            return pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """End the conversation."""
        self._writer.close()
