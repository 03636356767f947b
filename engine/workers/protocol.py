"""Messages between the worker pool and its workers, over a private socket pair.

A message is a name and values. These are pickled, which is safe because both ends are this program; guest
data crosses only as strings.

| to a worker | meaning |
|---|---|
| `start`, `WorkerConfig` | the first message |
| `publish`, `Publication` | serve it; the worker replies once its new requests use it |
| `certify`, `CertificateSet` | use TLS with these certificates from the next connection on |
| `serve` | all live publications were sent: accept connections |
| `report` | reply with the instances |

| to the pool | meaning |
|---|---|
| `reply`, `PoolState` or `None` | the reply to the first `publish` or `report` that has none |
| `records`, project, records, `DoorUsage` | new records, and Door calls since the last ones |
| `jobs`, project | a request has changed the jobs of the project |
| `warn`, text | a warning or fault for the service's log |
"""

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.gateway.client_address import Network
from engine.http.connection_limits import PER_ADDRESS
from engine.http.exchange import MAX_BODY
from engine.lane import BuildMode

_HEAD = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How to serve.

    `data` is the folder of the project's data or, with `multi_project`, of one folder per project. `grace` is
    in seconds. `per_address` limits connections per client address, 0 for no limit. `scheme` is that of a
    TLS-terminating proxy. `max_body` is the maximum request body and `memory` the worker's budget, in bytes.
    `processes` share the quotas of projects. `console` is the address to which requests for the Console are
    forwarded, and the secret for it. `trusted_proxies` report the addresses of their clients. `proof_key` is
    that of `gateway.domain_proof`, and `bucket` the folder of the service's bucket; both are empty in
    development. `door_secret` is that of `DoorStorage`.
    """

    multi_project: bool
    data: Path
    cache: Path
    mode: BuildMode
    domain: str
    dev: bool
    grace: float
    per_address: int = PER_ADDRESS
    scheme: str = ""
    max_body: int = MAX_BODY
    memory: int | None = None
    processes: int = 1
    console: tuple[str, str] | None = None
    trusted_proxies: tuple[Network, ...] = ()
    proof_key: bytes = b""
    bucket: Path | None = None
    door_secret: bytes = b""

    def folder(self, project: str) -> Path:
        return self.data / project if self.multi_project else self.data


class Channel:
    """One end of the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> "Channel":
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, *message: Any) -> None:
        """Queue a message; it is lost if the other process has exited."""
        data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._writer.write(_HEAD.pack(len(data)) + data)

    async def drain(self) -> None:
        """Wait until the other end has accepted the queued messages, or has exited."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> Any:
        """Return the next message, or `None` when the other end has closed."""
        try:
            (size,) = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            return pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        self._writer.close()
