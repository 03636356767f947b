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

The stream is the truth; republished headers only wake readers. Reads go to any replica. A replica may lag, so
a stream remembers the highest sequence that this process has seen, and asks the leader below it.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.bucket.blobs import Blobs
from engine.bucket.protocols import (
    BlobCorrupt,
    BlobInfo,
    BlobMissing,
    BucketClosed,
    Digest,
    StaleRevision,
    TooLarge,
    VersionedValue,
    as_digest,
    check_name,
    check_value,
    disk_errors,
)
from engine.fleet.connection import (
    PATIENCE_SECONDS,
    ClusterAddress,
    NatsConnection,
    Patience,
    error_code,
    refused,
)
from engine.fleet.errors import ConnectionInterrupted, Unavailable, UnsuitableCluster
from engine.replication import LogMessage

PAGE_MESSAGES = 256
PAGE_BYTES = 4 << 20
NEWS_SECONDS = 5.0
"""How often a follower reads without news, which may be lost."""
CREATE_SECONDS, CREATE_PAUSE_SECONDS = 15, 0.2
DUPLICATE_WINDOW_NS = 120 * 10**9

_WRONG_LAST = {10071, 10164}
"""Error codes of a failed expectation. 10164: another write of the subject is in progress; it may fail."""
_INCOMPLETE_BATCH = 10176
_BATCH_LOST = {10175, _INCOMPLETE_BATCH, 10179}
"""Error codes of a batch whose messages did not all arrive, as after a change of leader."""
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_ID = "Nats-Msg-Id"
BATCH = "Svc-Batch"
"""Header: the id of a batch, the same in each try."""
MAX_BATCH_MESSAGES = 1000
_NO_MESSAGE = 10037
_NO_PEERS, _NOT_READY = 10005, 10008
_NAME_IN_USE = 10058
_NO_STREAM = 10059


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(LogMessage):
    """A stored message. `subject` is below the subject of the stream."""

    subject: str
    headers: Mapping[str, str]


class JetStream:
    """The subjects below `<name>.<namespace>` of a stream, which other namespaces share."""

    def __init__(self, connection: NatsConnection, name: str, namespace: str) -> None:
        self._connection = connection
        self.name = name
        self._root = f"{name}.{namespace}."
        self._last_sequence = 0

    async def create(self, **config: Any) -> None:
        """Create the stream, or check that it exists. Raises `BucketError` without three servers."""
        settings = {
            "name": self.name,
            "subjects": [f"{self.name}.>"],
            "num_replicas": 3,
            "storage": "file",
            "allow_direct": True,
            "deny_delete": True,
            "duplicate_window": DUPLICATE_WINDOW_NS,
            "republish": {"src": f"{self.name}.>", "dest": f"{self.name}-news.>", "headers_only": True},
            **config,
        }
        deadline = asyncio.get_running_loop().time() + CREATE_SECONDS
        while not await self.exists(settings):
            # Servers that have just started are not known as peers at once.
            early = asyncio.get_running_loop().time() < deadline
            allowed = (_NAME_IN_USE, _NO_PEERS, _NOT_READY) if early else (_NAME_IN_USE,)
            answer = await self._connection.api(f"STREAM.CREATE.{self.name}", settings, allowed=allowed)
            if error_code(answer) is None:
                return
            await asyncio.sleep(CREATE_PAUSE_SECONDS)  # Another node may have created it meanwhile.

    async def exists(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the stream exists. Raises `UnsuitableCluster` if it has other settings."""
        answer = await self._connection.api(f"STREAM.INFO.{self.name}", {}, allowed=(_NO_STREAM, _NOT_READY))
        if error_code(answer) is not None:
            return False
        if any(answer["config"].get(name) != value for name, value in settings.items()):
            message = f"the stream {self.name} of the fleet has other settings than svc uses"
            raise UnsuitableCluster(message, "Run the same version of svc on all nodes.")
        return True

    async def publish(
        self,
        subject: str,
        content: bytes = b"",
        *,
        expected: int | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> int | None:
        """Store a message and return its sequence.

        `expected` is the sequence of the last message of the subject, 0 for none; returns `None` when another
        write came first. `seconds` limits how long the write is repeated. Raises `Unavailable` when no answer
        came: the message may be stored or not.
        """
        fields = {**(headers or {}), MESSAGE_ID: secrets.token_hex(12)}
        if expected is not None:
            fields[EXPECTED] = str(expected)
        patience = Patience(f"a write to {self.name}", seconds)
        while True:
            answer = await self._connection.request(self._root + subject, content, patience, fields)
            code = error_code(answer)
            if code is None:
                self._last_sequence = max(self._last_sequence, answer["seq"])
                return int(answer["seq"])
            if code not in _WRONG_LAST:
                raise refused(f"a write to {self.name}", answer)
            last = await self.last(subject, seconds)
            if last is not None and last.headers.get(MESSAGE_ID) == fields[MESSAGE_ID]:
                return last.sequence  # An earlier try was stored.
            if (last.sequence if last is not None else 0) != expected:
                return None
            await patience.pause()  # A write is in progress, perhaps an earlier try.

    async def publish_batch(self, subject: str, contents: Sequence[bytes], *, expected: int) -> int | None:
        """Store messages of a subject, all or none of them, and return the sequence of the last.

        The stream must have `allow_atomic`. `expected` and errors are those of `publish`. Returns `None` only
        if the messages will never be stored. Raises `TooLarge` beyond `MAX_BATCH_MESSAGES`.
        """
        if not 0 < len(contents) <= MAX_BATCH_MESSAGES:
            raise TooLarge(f"a batch of messages for {self.name}", len(contents), MAX_BATCH_MESSAGES)
        batch = secrets.token_hex(12)
        patience = Patience(f"a batch of writes to {self.name}")
        while True:
            try:
                answer = await self._send_batch(subject, contents, batch, expected, patience)
            except ConnectionInterrupted:
                answer = {"error": {"err_code": _INCOMPLETE_BATCH}}
            code = error_code(answer)
            if code is None:
                self._last_sequence = max(self._last_sequence, answer["seq"])
                return int(answer["seq"])
            if code not in _WRONG_LAST | _BATCH_LOST:
                raise refused(f"a batch of writes to {self.name}", answer)
            # An earlier try may have been stored. The message after the expected one never changes.
            first = await self._get({"seq": expected + 1, "next_by_subj": self._root + subject})
            if first is not None and first.headers.get(BATCH) == batch:
                return first.sequence + len(contents) - 1
            if first is not None and first.headers.get(EXPECTED) == str(expected):
                return None
            if first is not None:  # What followed the expected message has been purged since.
                raise Unavailable(f"a batch of writes to {self.name}", PATIENCE_SECONDS)
            await patience.pause()

    async def _send_batch(
        self, subject: str, contents: Sequence[bytes], batch: str, expected: int, patience: Patience
    ) -> dict[str, Any]:
        """Send all messages of a batch; return the answer to the last one."""
        subject, headers = self._root + subject, {BATCH: batch, EXPECTED: str(expected)}
        if len(contents) == 1:
            headers[MESSAGE_ID] = batch
            return await self._connection.request(subject, contents[0], patience, headers)
        headers["Nats-Batch-Id"] = secrets.token_hex(8)
        for number, content in enumerate(contents[:-1], 1):
            headers["Nats-Batch-Sequence"] = str(number)
            await self._connection.publish(subject, content, headers=headers)
            headers.pop(EXPECTED, None)
        headers |= {"Nats-Batch-Sequence": str(len(contents)), "Nats-Batch-Commit": "1"}
        return await self._connection.request(subject, contents[-1], patience, headers)

    async def leader(self, seconds: float | None = None) -> str:
        """Return the server that leads the stream. Raises `BucketError`, as without a majority."""
        answer = await self._connection.api(f"STREAM.INFO.{self.name}", {}, seconds)
        return str(answer.get("cluster", {}).get("leader", ""))

    async def last(self, subject: str, seconds: float | None = None) -> Message | None:
        """Return the last message of a subject, as the leader of the stream has it.

        `seconds` limits how long the question is repeated.
        """
        return await self._get({"last_by_subj": self._root + subject}, seconds)

    async def last_stored(self, subject: str) -> str:
        """Return when the last message of a subject or filter was stored (RFC 3339, UTC); empty for none."""
        message = await self.last(subject)
        return message.time if message is not None else ""

    async def _get(self, body: Mapping[str, Any], seconds: float | None = None) -> Message | None:
        answer = await self._connection.api(
            f"STREAM.MSG.GET.{self.name}", body, seconds, allowed=(_NO_MESSAGE,)
        )
        if error_code(answer) is not None:
            return None
        message = answer["message"]
        text = base64.b64decode(message.get("hdrs", "")).decode()
        self._last_sequence = max(self._last_sequence, message["seq"])
        return Message(
            message["seq"],
            base64.b64decode(message.get("data", "")),
            message["time"],
            subject=message["subject"].removeprefix(self._root),
            headers=dict(line.split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line),
        )

    async def page(self, subject: str, after: int) -> list[Message]:
        """Return messages of a subject or filter after a sequence, in order; empty if there are no more."""
        while True:
            messages, more = await self._direct(subject, after)
            if messages:
                self._last_sequence = max(self._last_sequence, messages[-1].sequence)
                return messages
            if more:
                continue
            if self._last_sequence <= after:
                return []
            message = await self._get({"seq": after + 1, "next_by_subj": self._root + subject})
            return [message] if message is not None else []

    async def _direct(self, subject: str, after: int) -> tuple[list[Message], bool]:
        """Return what one replica has, and whether it has more."""
        body = {"seq": after + 1, "next_by_subj": self._root + subject, "batch": PAGE_MESSAGES}
        content = json.dumps({**body, "max_bytes": PAGE_BYTES}).encode()
        patience = Patience(f"a read of {self.name}")
        while True:
            messages: list[Message] = []
            with suppress(ConnectionInterrupted):
                answering = self._connection.answers(f"$JS.API.DIRECT.GET.{self.name}", content)
                async with aclosing(answering) as answers:
                    async for answer in answers:
                        headers = answer.headers or {}
                        if (status := headers.get("Status")) in ("204", "404"):
                            return messages, status == "204" and headers.get("Nats-Num-Pending", "0") != "0"
                        if status is not None:
                            break
                        sequence, stored = int(headers["Nats-Sequence"]), headers.get("Nats-Time-Stamp", "")
                        name = headers["Nats-Subject"].removeprefix(self._root)
                        messages.append(Message(sequence, answer.data, stored, subject=name, headers=headers))
            self._connection.check_open()
            await patience.pause()

    async def messages(self, subject: str, after: int = 0) -> AsyncGenerator[Message, None]:
        while page := await self.page(subject, after):
            for message in page:
                yield message
            after = page[-1].sequence

    @asynccontextmanager
    async def news(self, subject: str, on_news: Callable[[int], None]) -> AsyncGenerator[None, None]:
        """Call a function with the sequence of each message of a subject or filter that is stored.

        News may be lost.
        """

        async def receive(message: Any) -> None:
            sequence = int(message.headers["Nats-Sequence"])
            self._last_sequence = max(self._last_sequence, sequence)
            on_news(sequence)

        dest = f"{self.name}-news.{self._root.removeprefix(self.name + '.')}{subject}"
        subscription = await self._connection.subscribe(dest, receive)
        await self._connection.flush()
        try:
            yield
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    async def subjects(self, filter_: str) -> set[str]:
        """Return the subjects below a filter that have messages."""
        subjects: set[str] = set()
        while True:
            body = {"subjects_filter": self._root + filter_, "offset": len(subjects)}
            answer = await self._connection.api(f"STREAM.INFO.{self.name}", body)
            names = answer["state"].get("subjects") or {}
            subjects |= {name.removeprefix(self._root) for name in names}
            if not names or len(subjects) >= answer.get("total", 0):
                return subjects

    async def purge(self, subject: str, up_to: int | None = None) -> None:
        """Remove the messages of a subject or filter, all or those up to a sequence."""
        body: dict[str, object] = {"filter": self._root + subject}
        if up_to is not None:
            body["seq"] = up_to + 1
        await self._connection.api(f"STREAM.PURGE.{self.name}", body)


REMOVED = "Svc-Removed"
_ESCAPED = re.compile(rb"=([0-9A-F]{2})")
_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9_-]")


def token(part: str) -> str:
    return _NOT_PLAIN.sub(lambda match: b"=%02X" % match[0][0], part.encode()).decode() or "="


def subject_of(key: str) -> str:
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
        check_name(key)
        message = await self._stream.last(subject_of(key))
        return _value(message) if message is not None else None

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`, and `Unavailable` when the value may be set or not."""
        check_value(key, value)
        subject, headers = subject_of(key), {REMOVED: "1"} if value is None else None
        while True:
            message = await self._stream.last(subject)
            expected = message.sequence if message is not None else 0
            stored = None if message is None or REMOVED in message.headers else expected
            if stored != revision:
                return StaleRevision(stored)
            new = await self._stream.publish(subject, value or b"", expected=expected, headers=headers)
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
        filter_, event = filter_of(prefix), asyncio.Event()
        with suppress(BucketClosed):
            async with self._stream.news(filter_, lambda _: event.set()):
                while True:
                    event.clear()
                    async for message in self._stream.messages(filter_, after):
                        if (key := key_of(message.subject)).startswith(prefix):
                            yield key, _value(message)
                        after = message.sequence
                    with suppress(TimeoutError):
                        await asyncio.wait_for(event.wait(), NEWS_SECONDS)


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
    """Contents by digest: the part of `engine.bucket.blobs.Blobs` without uploads."""

    def __init__(self, contents: JetStream, records: StreamKeyValue) -> None:
        self._contents, self._records = contents, records

    async def _record(self, key: str) -> tuple[_Record, int] | None:
        value = await self._records.get(key)
        return (_Record(**json.loads(value.value)), value.revision) if value is not None else None

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        entry = await self._record(as_digest(digest))
        if entry is None or not entry[0].complete:
            raise BlobMissing(digest)
        record, revision = entry
        sha256, pending = hashlib.sha256(), b""
        async for message in self._content(record.id, record.size):
            if pending:
                yield pending
            sha256.update(message.content)
            pending = message.content
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
        """See `Blobs`. Reads the content before the part, too."""
        position = 0
        async with aclosing(self.read(digest)) as content:
            async for chunk in content:
                if part := chunk[max(0, start - position) : max(0, stop - position)]:
                    yield part
                position += len(chunk)
                if position >= stop:
                    return

    async def _content(self, id_: str, size: int) -> AsyncGenerator[Message, None]:
        """Yield messages with the first `size` bytes of an upload, or fewer if every replica lacks one."""
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
                return
            if tries:
                await asyncio.sleep(0.02 * tries)

    async def copy_to(self, digest: Digest, target: Path) -> None:
        """See `Blobs`."""
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
        """See `Blobs`."""
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
        """See `Blobs`."""
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
        entry = await self._record(digest)
        if entry is None or entry[0].id != record.id:  # Else an earlier try stored the record.
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


class StreamBlobs(StreamContents, Blobs):
    """The blobs of a fleet."""

    def __init__(self, contents: JetStream, records: StreamKeyValue, uploads: Path) -> None:
        """`uploads` is a folder of this node."""
        StreamContents.__init__(self, contents, records)
        Blobs.__init__(self, uploads)
        with disk_errors(uploads):
            uploads.mkdir(parents=True, exist_ok=True)

    async def _store(self, path: Path, digest: Digest) -> None:
        await self.store(path, digest)
        with disk_errors(path):
            path.unlink()

    async def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """See `Blobs`. Purges orphaned contents, too."""
        if not count_only:
            await self.purge_orphans(before_ns)
        return await super().delete_uploads(before_ns, count_only=count_only)


VALUES = "svc-kv"
NAMESPACE = "svc"
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
                message = f"{address.shown} runs nats-server {'.'.join(map(str, version))}"
                raise UnsuitableCluster(message, "Update it to 2.12 or newer.")
            await connection.api("INFO", {}, JETSTREAM_SECONDS)
            for name, config in STREAMS.items():
                stream = JetStream(connection, name, namespace)
                if create:
                    await stream.create(**config)
                elif not await stream.exists({}):
                    hint = "Start the fleet first."
                    raise UnsuitableCluster(f"the fleet at {address.shown} has no stream {name}", hint)
        except BaseException:
            await connection.aclose()
            raise
        return cls(connection, namespace, uploads)

    async def aclose(self) -> None:
        await self.blobs.aclose()
        await self.connection.aclose()
