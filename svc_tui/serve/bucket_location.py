"""The place of a bucket: a folder, a fleet, or a NATS cluster as `nats://HOST:PORT,…/NAME`."""

import asyncio
import contextlib
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.bucket import layout
from engine.bucket.errors import disk_error
from engine.bucket.protocols import Bucket
from engine.cancellation import cancel
from engine.errors import InvalidUsage, SvcError
from engine.http.tls import Certificate, read
from svc_tui.client.urls import is_loopback

if TYPE_CHECKING:
    from engine.fleet.connection import ClusterAddress
    from engine.fleet.node import FleetNode

DEFAULT_NAME = "svc"
DEFAULT_PORT = 4222
_URL = re.compile(r"(nats|tls)://(?:([^@/]+)@)?([^@/]+)(?:/([^/]*)/?)?")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKeys:
    """Files that authenticate svc at a cluster, and the cluster at svc."""

    credentials: Path | None = None
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class FolderLocation:
    """A folder, which one process uses at a time."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class ClusterLocation:
    """The bucket `name` of a cluster. `fleet` is the id of the fleet that uses it, or empty."""

    servers: tuple[str, ...]
    name: str
    tls: bool
    keys: ClusterKeys
    fleet: str = ""

    def __str__(self) -> str:
        hosts = ",".join(url.partition("://")[2].rpartition("@")[2] for url in self.servers)
        return f"nats://{hosts}/{self.name}"

    def address(self) -> "ClusterAddress":
        """Read the key files. Raises `SvcError`."""
        from engine.fleet.connection import ClusterAddress
        from engine.fleet.nkeys import Nkey

        keys = self.keys
        context = None
        if self.tls:
            if keys.authority is not None:
                read(keys.authority)
            try:
                context = ssl.create_default_context(cafile=keys.authority)
            except (ssl.SSLError, OSError) as error:
                raise SvcError(
                    f"cannot use the certificate {keys.authority}: {error.strerror or error}",
                    "Check the file of --bucket-ca; it must be PEM.",
                ) from error
            if keys.certificate is not None and keys.key is not None:
                Certificate(keys.certificate, keys.key).load_into(context)
        nkey = Nkey.read(keys.credentials) if keys.credentials is not None else None
        return ClusterAddress(servers=self.servers, tls=context, nkey=nkey)


BucketLocation = FolderLocation | ClusterLocation


def parse_location(text: str, keys: ClusterKeys) -> BucketLocation:
    """Return the place of a bucket. Raises `InvalidUsage` and `SvcError`.

    The folder of a fleet's node, and the data directory of a service in a fleet, name its cluster.
    """
    if "://" not in text:
        return _of_folder(Path(text).expanduser().absolute())
    match = _URL.fullmatch(text)
    hosts = [_HOST.fullmatch(host) for host in match[3].split(",")] if match else []
    if match is None or not all(hosts):
        redacted = re.sub(r"//[^/]*@", "//", text)
        raise InvalidUsage(f"invalid bucket {redacted}", "Use a folder, or nats://HOST:PORT,HOST:PORT/NAME.")
    name = match[4] or DEFAULT_NAME
    if not _NAME.fullmatch(name):
        raise InvalidUsage(
            f'invalid bucket name "{name}"',
            "Use 1 to 31 lower-case letters, digits and -, beginning with no -.",
        )
    if (keys.certificate is None) != (keys.key is None):
        raise InvalidUsage("--bucket-cert and --bucket-key require each other", "Pass both or neither.")
    tls = match[1] == "tls" or keys.authority is not None or keys.certificate is not None
    user = f"{match[2]}@" if match[2] else ""
    servers = []
    for host in hosts:
        assert host is not None
        bare = host[1].strip("[]")
        if not tls and not is_loopback(bare):
            raise InvalidUsage(
                f"secrets would go to {bare} without TLS",
                f"Use tls://{match[3]}/{name}, with --bucket-ca FILE.",
            )
        servers.append(f"{'tls' if tls else 'nats'}://{user}{host[1]}:{host[2] or DEFAULT_PORT}")
    return ClusterLocation(tuple(servers), name, tls, keys)


def _of_folder(folder: Path) -> BucketLocation:
    from engine.fleet.node import NODE_FILE, NODE_FOLDER, FleetNode

    if (folder / NODE_FILE).is_file():
        return _of_node(folder, FleetNode.read(folder))
    if (folder / NODE_FOLDER / NODE_FILE).is_file():
        node = FleetNode.read(folder / NODE_FOLDER)
        if node.state == "member":
            return _of_node(folder / NODE_FOLDER, node)
    return FolderLocation(folder)


def _of_node(folder: Path, node: "FleetNode") -> ClusterLocation:
    from engine.fleet.node import AUTHORITY, CERTIFICATE, KEY, SEED

    keys = ClusterKeys(
        credentials=folder / SEED,
        authority=folder / AUTHORITY,
        certificate=folder / CERTIFICATE,
        key=folder / KEY,
    )
    servers = tuple(f"tls://{address}" for address in node.nodes)
    fleet = "" if node.state == "static" else node.fleet
    return ClusterLocation(servers, DEFAULT_NAME, True, keys, fleet)


@contextlib.asynccontextmanager
async def open_bucket(location: BucketLocation, opened_by: str) -> AsyncIterator[Bucket]:
    """Open a bucket and close it. Several processes may open a cluster. Raises `SvcError`."""
    if isinstance(location, FolderLocation):
        from engine.bucket.folder import FolderBucket

        bucket: Bucket = FolderBucket(location.folder, opened_by)
    else:
        from engine.fleet.bucket import JetStreamBucket

        bucket = await JetStreamBucket.open(location.address(), location.name)
    try:
        yield bucket
    finally:
        await bucket.aclose()


@contextlib.asynccontextmanager
async def open_exclusively(
    location: BucketLocation, opened_by: str, on_lost: Callable[[SvcError], None]
) -> AsyncIterator[Bucket]:
    """Open a bucket that no other process uses. Raises `BucketInUse`, and as `open_bucket` does.

    `on_lost` is called when another process has taken the bucket of a cluster, after an interruption.
    """
    async with open_bucket(location, opened_by) as bucket:
        if isinstance(location, FolderLocation):
            yield bucket
            return
        from engine.fleet.bucket import JetStreamBucket

        assert isinstance(bucket, JetStreamBucket)
        lease = await bucket.lease(f"{opened_by} on {socket.gethostname()} (process {os.getpid()})")
        renewing = asyncio.create_task(lease.renew(on_lost))
        try:
            yield bucket
        finally:
            await cancel([renewing])
            await lease.release()


@contextlib.contextmanager
def lock_data(folder: Path, opened_by: str) -> Iterator[None]:
    """Lock the data directory of a service with another bucket. Raises `BucketInUse` and `BucketError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise disk_error(folder, error) from error
    descriptor = layout.lock(folder, opened_by)
    try:
        yield
    finally:
        os.close(descriptor)
