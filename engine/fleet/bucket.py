"""The bucket on a JetStream cluster: three streams with three copies of each message.

Several buckets can share the streams, each in a namespace. A value is the last message of a subject, and a
revision its sequence. A removed key leaves a message with the header `Svc-Removed`, so that its revision is
never used again.

Parts of a key between slashes become tokens of a subject. A byte outside `[A-Za-z0-9_-]` becomes `=XX`, an
empty part `=`. A key of 512 characters makes a subject of at most 6 KiB, more than the default
`max_control_line` of nats-server.

Blobs are messages of at most 1 MiB. The record of a blob has its digest as key, and names the subject of the
content by a random id. One compare-and-set of the record creates or removes the blob. Content that no record
names is an orphan and is purged. A node receives an upload as a file of its own, and stores it when it is
complete.
"""

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from engine.bucket.blobs import SpooledBlobs
from engine.bucket.protocols import (
    MAX_VALUE_BYTES,
    BlobCorrupt,
    BlobInfo,
    BlobMissing,
    Digest,
    StaleRevision,
    TooLarge,
    VersionedValue,
    as_digest,
    check_name,
    disk_errors,
)
from engine.fleet.connection import ClusterAddress, NatsConnection
from engine.fleet.errors import UnsuitableCluster
from engine.fleet.stream import JetStream, Message

REMOVED = "Svc-Removed"
_ESCAPED = re.compile(rb"=([0-9A-F]{2})")
_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9_-]")


def token(part: str) -> str:
    """Return a part of a key as one token."""
    return _NOT_PLAIN.sub(lambda match: b"=%02X" % match[0][0], part.encode()).decode() or "="


def subject_of(key: str) -> str:
    """Return the subject of a key."""
    return ".".join(map(token, key.split("/")))


def key_of(subject: str) -> str:
    """Return the key of a subject."""
    parts = ("" if token == "=" else token for token in subject.split("."))
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), "/".join(parts).encode()).decode()


def filter_of(prefix: str) -> str:
    """Return the narrowest subject filter that matches every key with this prefix."""
    return ".".join([*map(token, prefix.split("/")[:-1]), ">"])


class StreamKeyValue:
    """Implements `engine.bucket.protocols.KeyValue`."""

    def __init__(self, stream: JetStream) -> None:
        self._stream = stream

    async def get(self, key: str) -> VersionedValue | None:
        """See the protocol. Raises `Unavailable`."""
        check_name(key)
        message = await self._stream.last(subject_of(key))
        return _value(message) if message is not None else None

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`, and `Unavailable` when the value may be set or not."""
        check_name(key)
        if value is not None and len(value) > MAX_VALUE_BYTES:
            raise TooLarge(f"the value of {key}", len(value), MAX_VALUE_BYTES)
        headers = {REMOVED: "1"} if value is None else None
        while True:
            message = await self._stream.last(subject_of(key))
            current = _value(message) if message is not None else None
            if (current.revision if current is not None else None) != revision:
                return StaleRevision(current.revision if current is not None else None)
            expected = message.sequence if message is not None else 0
            new = await self._stream.publish(
                subject_of(key), value or b"", expected=expected, headers=headers
            )
            # Another write came first or is in progress: read its revision.
            if new is not None:
                return new

    async def list(self, prefix: str) -> list[VersionedValue]:
        """See the protocol. A key that changes meanwhile is listed with its old or its new value."""
        if prefix:
            check_name(prefix)
        values: dict[str, VersionedValue | None] = {}
        async for message in self._stream.messages(filter_of(prefix)):
            values[key_of(message.subject)] = _value(message)
        return [
            value for key, value in sorted(values.items()) if value is not None and key.startswith(prefix)
        ]

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[tuple[str, VersionedValue | None], None]:
        """Yield keys with this prefix that change after a revision, and their values; end with the bucket."""
        async for message in self._stream.follow(filter_of(prefix), after):
            key = key_of(message.subject)
            if key.startswith(prefix):
                yield key, _value(message)


def _value(message: Message) -> VersionedValue | None:
    if REMOVED in message.headers:
        return None
    return VersionedValue(key_of(message.subject), message.content, message.sequence)


MESSAGE_BYTES = 1 << 20
END = "Svc-End"
"""Header: the number of bytes of the content up to the end of this message."""
TRIES = 8
"""How often a message is read that one replica lacks or has damaged; each try may reach another replica."""


@dataclass(frozen=True, slots=True)
class _Record:
    """`used_ns` is Unix time: the last upload or touch."""

    id: str
    size: int
    used_ns: int
    complete: bool

    @property
    def json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class StreamContents:
    """Contents by digest: the part of `engine.bucket.protocols.Blobs` without uploads."""

    def __init__(self, contents: JetStream, records: StreamKeyValue) -> None:
        self._contents, self._records = contents, records

    async def _record(self, key: str) -> tuple[_Record, int] | None:
        value = await self._records.get(key)
        return (_Record(**json.loads(value.value)), value.revision) if value is not None else None

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """See the protocol. Raises `BlobMissing` and `BlobCorrupt`."""
        entry = await self._record(as_digest(digest))
        if entry is None or not entry[0].complete:
            raise BlobMissing(digest)
        record, revision = entry
        sha256, pending = hashlib.sha256(), b""
        try:
            async for message in self._content(record.id, record.size):
                if pending:
                    yield pending
                sha256.update(message.content)
                pending = message.content
        except _Incomplete:
            sha256 = hashlib.sha256(b"incomplete")
        if sha256.hexdigest() != as_digest(digest):
            now = await self._record(as_digest(digest))
            if now is None:  # Deleted while it was read.
                raise BlobMissing(digest)
            # Without its record, the next deploy of the same content restores it.
            await self._records.cas(as_digest(digest), None, revision)
            raise BlobCorrupt(digest)
        if pending:
            yield pending

    async def read_part(
        self, digest: Digest, start: int, stop: int, checks: bytes
    ) -> AsyncGenerator[bytes, None]:
        """See the protocol. Reads the content before the part, too."""
        position = 0
        async with aclosing(self.read(digest)) as content:
            async for chunk in content:
                if part := chunk[max(0, start - position) : max(0, stop - position)]:
                    yield part
                position += len(chunk)
                if position >= stop:
                    return

    async def _content(self, id_: str, size: int) -> AsyncGenerator[Message, None]:
        """Yield messages with the first `size` bytes of an upload. Raises `_Incomplete`."""
        position = sequence = tries = 0
        while position < size:
            page_start = position
            for message in await self._contents.page(id_, sequence):
                if int(message.headers.get(END, "0")) - len(message.content) != position:
                    break
                yield message
                position, sequence = position + len(message.content), message.sequence
            tries = 0 if position > page_start else tries + 1
            if tries > TRIES:
                raise _Incomplete
            if tries:
                await asyncio.sleep(0.02 * tries)

    async def copy_to(self, digest: Digest, target: Path) -> None:
        chunks = self.read(digest)
        first = await anext(chunks, b"")  # A missing blob leaves no file.
        with target.open("xb") as file:
            try:
                file.write(first)
                async for chunk in chunks:
                    await asyncio.to_thread(file.write, chunk)
            except BaseException:
                target.unlink()
                raise

    async def touch(self, digest: Digest) -> bool:
        while (entry := await self._record(as_digest(digest))) is not None and entry[0].complete:
            record, revision = entry
            used = replace(record, used_ns=max(time.time_ns(), record.used_ns + 1))
            if isinstance(await self._records.cas(as_digest(digest), used.json, revision), int):
                return True
        return False

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        for value in await self._records.list(""):
            record = _Record(**json.loads(value.value))
            if record.complete:
                yield BlobInfo(Digest(value.key), record.size, record.used_ns)

    async def delete(self, digest: Digest, before_ns: int) -> bool:
        entry = await self._record(as_digest(digest))
        if entry is None or not entry[0].complete or entry[0].used_ns >= before_ns:
            return False
        if not isinstance(await self._records.cas(digest, None, entry[1]), int):
            return False
        await self._contents.purge(entry[0].id)
        return True

    async def store(self, path: Path, digest: Digest) -> None:
        """Store the content of a file, unless the blob exists. Raises `BucketError`."""
        if await self.touch(digest):
            return
        record = _Record(secrets.token_hex(8), 0, 0, complete=True)
        with disk_errors(path), path.open("rb") as file:
            while chunk := await asyncio.to_thread(file.read, MESSAGE_BYTES):
                record = replace(record, size=record.size + len(chunk))
                await self._contents.publish(record.id, chunk, headers={END: str(record.size)})
        while not await self.touch(digest):
            entry = await self._record(digest)  # That of an upload of an earlier svc.
            revision = entry[1] if entry is not None else None
            record = replace(record, used_ns=time.time_ns())
            if isinstance(await self._records.cas(digest, record.json, revision), int):
                return
        await self._contents.purge(record.id)

    async def purge_orphans(self, before_ns: int) -> None:
        """Remove contents without a record that were stored before a time, and uploads of an earlier svc."""
        orphans = await self._contents.subjects(">")
        for value in await self._records.list(""):
            record = _Record(**json.loads(value.value))
            if record.complete or record.used_ns >= before_ns:
                orphans.discard(record.id)
            else:
                await self._records.cas(value.key, None, value.revision)
        for id_ in orphans:
            last = await self._contents.last(id_)
            if last is not None and datetime.fromisoformat(last.time).timestamp() * 1e9 < before_ns:
                await self._contents.purge(id_)


class StreamBlobs(StreamContents, SpooledBlobs):
    """Implements `engine.bucket.protocols.Blobs`."""

    def __init__(self, contents: JetStream, records: StreamKeyValue, uploads: Path) -> None:
        """`uploads` is a folder of this node."""
        StreamContents.__init__(self, contents, records)
        SpooledBlobs.__init__(self, uploads)
        with disk_errors(uploads):
            uploads.mkdir(parents=True, exist_ok=True)

    async def _store(self, path: Path, digest: Digest) -> None:
        await self.store(path, digest)
        with disk_errors(path):
            path.unlink()

    async def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """See the protocol. Purges orphaned contents, too."""
        if not count_only:
            await self.purge_orphans(before_ns)
        return await super().delete_uploads(before_ns, count_only=count_only)


class _Incomplete(Exception):
    """A message of the content is missing on every replica that answered."""


VALUES = "svc-kv"
NAMESPACE = "svc"
"""The namespace of a fleet."""
MIN_VERSION = (2, 12)
JETSTREAM_SECONDS = 6.0
_LAST_ONLY: Mapping[str, object] = {"max_msgs_per_subject": 1, "discard": "old"}
STREAMS: Mapping[str, Mapping[str, object]] = {
    VALUES: _LAST_ONLY,
    "svc-records": _LAST_ONLY,
    "svc-blobs": {"discard": "new"},
}


class JetStreamBucket:
    """Implements `engine.bucket.protocols.Bucket`."""

    def __init__(self, connection: NatsConnection, namespace: str, uploads: Path) -> None:
        """Use streams that exist (`open`)."""
        self.connection, self.namespace = connection, namespace
        records = StreamKeyValue(JetStream(connection, "svc-records", f"{namespace}.blobs"))
        self.kv = StreamKeyValue(JetStream(connection, VALUES, namespace))
        self.blobs = StreamBlobs(JetStream(connection, "svc-blobs", namespace), records, uploads)
        self.fleet = StreamKeyValue(JetStream(connection, "svc-records", f"{namespace}.fleet"))
        """Records of the fleet itself, which backups do not contain."""

    @classmethod
    async def open(
        cls, address: ClusterAddress, namespace: str, uploads: Path, *, create: bool = True
    ) -> "JetStreamBucket":
        """Connect and create the streams; without `create` they must exist.

        `uploads` is a folder for uploads in progress. Raises `FleetNotInstalled`, `ClusterRefused`,
        `UnsuitableCluster` and `Unavailable`.
        """
        connection = await NatsConnection.open(address)
        try:
            if (version := connection.server_version) < MIN_VERSION:
                raise UnsuitableCluster(
                    f"{address.shown} runs nats-server {'.'.join(map(str, version))}",
                    "Update it to 2.12 or newer.",
                )
            await connection.api("INFO", {}, JETSTREAM_SECONDS)
            for name, config in STREAMS.items():
                stream = JetStream(connection, name, namespace)
                if create:
                    await stream.create(**config)
                elif not await stream.exists({}):
                    raise UnsuitableCluster(
                        f"the fleet at {address.shown} has no stream {name}", "Start the fleet first."
                    )
        except BaseException:
            await connection.aclose()
            raise
        return cls(connection, namespace, uploads)

    async def aclose(self) -> None:
        """See the protocol."""
        await self.blobs.aclose()
        await self.connection.aclose()
