"""Blobs as messages of at most 1 MiB on a stream, with records in a key-value store.

A record names the subject of the content by a random id: that of a blob has its digest as key, that of an
upload the digest and the owner. One compare-and-set of the record creates or removes a blob. Each message
expects the one before, so that two processes cannot mix their uploads. Content that no record names is an
orphan and is purged.
"""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from engine.bucket.blobs import Spool, fill, rechunk
from engine.bucket.copy import upload_blob
from engine.bucket.protocols import (
    AddedBlob,
    BlobCorrupt,
    BlobInfo,
    BlobMissing,
    Digest,
    DigestMismatch,
    StaleRevision,
    UploadBusy,
    as_digest,
)
from engine.files.temporary import temporary_folder
from engine.fleet.errors import Unavailable
from engine.fleet.kv import StreamKeyValue
from engine.fleet.stream import JetStream, Message

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


@dataclass(slots=True)
class _PartialUpload:
    """An upload in progress: the key of its record, and how far its content is stored."""

    key: str
    record: _Record
    revision: int
    received: int = 0
    sequence: int = 0


class StreamBlobs:
    """Implements `engine.bucket.protocols.Blobs`."""

    def __init__(self, contents: JetStream, records: StreamKeyValue) -> None:
        self._contents, self._records = contents, records
        self._busy: set[str] = set()

    async def _record(self, key: str) -> tuple[_Record, int] | None:
        value = await self._records.get(key)
        return (_Record(**json.loads(value.value)), value.revision) if value is not None else None

    async def get(self, digest: Digest) -> bytes:
        """See the protocol. Raises `BlobMissing` and `BlobCorrupt`."""
        return b"".join([chunk async for chunk in self.read(digest)])

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
        """See the protocol."""
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
        """See the protocol."""
        while (entry := await self._record(as_digest(digest))) is not None and entry[0].complete:
            record, revision = entry
            used = replace(record, used_ns=max(time.time_ns(), record.used_ns + 1))
            if isinstance(await self._records.cas(as_digest(digest), used.json, revision), int):
                return True
        return False

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        """See the protocol."""
        for value in await self._records.list(""):
            record = _Record(**json.loads(value.value))
            if record.complete:
                yield BlobInfo(Digest(value.key), record.size, record.used_ns)

    async def delete(self, digest: Digest, before_ns: int) -> bool:
        """See the protocol."""
        entry = await self._record(as_digest(digest))
        if entry is None or not entry[0].complete or entry[0].used_ns >= before_ns:
            return False
        return await self._remove(digest, *entry)

    async def _remove(self, key: str, record: _Record, revision: int) -> bool:
        """Remove a record, then its content; return whether the record was as given."""
        if not isinstance(await self._records.cas(key, None, revision), int):
            return False
        await self._contents.purge(record.id)
        return True

    async def received(self, digest: Digest, owner: str = "") -> int:
        """See the protocol."""
        upload = await self._resume(_upload_key(digest, owner))
        return upload.received if upload is not None else 0

    async def _resume(self, key: str) -> _PartialUpload | None:
        entry = await self._record(key)
        if entry is None:
            return None
        last = await self._contents.last(entry[0].id)
        if last is None:
            return _PartialUpload(key, *entry)
        return _PartialUpload(key, *entry, received=int(last.headers[END]), sequence=last.sequence)

    async def upload(
        self, digest: Digest, size: int, offset: int, chunks: AsyncIterable[bytes], owner: str = ""
    ) -> int | StaleRevision:
        """See the protocol. Raises `UploadBusy`, also when another process uploads for the same owner."""
        key = _upload_key(digest, owner)
        if await self.touch(digest):
            return size
        if key in self._busy:
            raise UploadBusy(digest)
        self._busy.add(key)
        try:
            upload = await self._resume(key)
            if upload is not None and upload.received > size:
                await self._discard(digest, upload)
                upload = None
            received = upload.received if upload is not None else 0
            if offset != received:
                return StaleRevision(received)
            return await self._add(digest, upload or await self._begin(digest, key), size, chunks)
        finally:
            self._busy.discard(key)

    async def add(self, chunks: AsyncIterable[bytes]) -> AddedBlob:
        """See the protocol. The content is in a temporary file until its digest is known."""
        with temporary_folder("svc-blob-") as folder:
            spool = Spool(folder / "content")
            try:
                added = await fill(spool, chunks, asyncio.to_thread)
                await upload_blob(self, added.digest, added.size, partial(_file_chunks, spool.path))
                return added
            finally:
                spool.discard()

    async def _begin(self, digest: Digest, key: str) -> _PartialUpload:
        record = _Record(secrets.token_hex(8), 0, time.time_ns(), complete=False)
        upload = _PartialUpload(key, record, revision=0)
        await self._store(digest, upload, record, None)
        return upload

    async def _store(
        self, digest: Digest, upload: _PartialUpload, record: _Record, revision: int | None
    ) -> None:
        """Store the record of an upload. Raises `UploadBusy` if another process has changed it."""
        stored = await self._records.cas(upload.key, record.json, revision)
        if isinstance(stored, StaleRevision):
            raise UploadBusy(digest)
        upload.revision = stored

    async def _discard(self, digest: Digest, upload: _PartialUpload) -> None:
        if not await self._remove(upload.key, upload.record, upload.revision):
            raise UploadBusy(digest)

    async def _add(
        self, digest: Digest, upload: _PartialUpload, size: int, chunks: AsyncIterable[bytes]
    ) -> int:
        sha256 = hashlib.sha256()
        received = upload.received
        try:
            async for message in self._content(upload.record.id, received):
                sha256.update(message.content)
        except _Incomplete:
            await self._discard(digest, upload)
            raise DigestMismatch(digest, "incomplete") from None
        failure: Exception | None = None
        try:
            async for chunk in rechunk(chunks, MESSAGE_BYTES):
                if upload.received + len(chunk) > size:
                    await self._discard(digest, upload)
                    raise DigestMismatch(digest, f"longer than the {size} bytes announced")
                for start in range(0, len(chunk), MESSAGE_BYTES):
                    content = chunk[start : start + MESSAGE_BYTES]
                    headers = {END: str(upload.received + len(content))}
                    sequence = await self._contents.publish(
                        upload.record.id, content, expected=upload.sequence, headers=headers
                    )
                    if sequence is None:
                        raise UploadBusy(digest)
                    upload.received, upload.sequence = upload.received + len(content), sequence
                sha256.update(chunk)
        except (DigestMismatch, UploadBusy, Unavailable):
            raise
        except Exception as error:
            failure = error
        if upload.received == size:
            if sha256.hexdigest() != digest:
                await self._discard(digest, upload)
                raise DigestMismatch(digest, f"sha256:{sha256.hexdigest()}")
            await self._complete(digest, upload)
        elif upload.received > received:
            used = replace(upload.record, used_ns=time.time_ns())
            await self._records.cas(upload.key, used.json, upload.revision)
        if failure is not None:
            raise failure
        return upload.received

    async def _complete(self, digest: Digest, upload: _PartialUpload) -> None:
        """Make a blob of an upload, unless the upload of another owner is one already."""
        now = time.time_ns()
        # From here on, `delete_uploads` of another process does not take the content for abandoned.
        await self._store(digest, upload, replace(upload.record, used_ns=now), upload.revision)
        blob = replace(upload.record, size=upload.received, used_ns=now, complete=True)
        entry = await self._record(digest)
        # Uploads of older versions have the key of the blob.
        revision = entry[1] if entry is not None and not entry[0].complete else None
        if isinstance(await self._records.cas(digest, blob.json, revision), int):
            await self._records.cas(upload.key, None, upload.revision)
        elif await self.touch(digest):
            await self._discard(digest, upload)
        else:
            raise UploadBusy(digest)

    async def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """See the protocol. Purges orphaned contents, too."""
        # Listed before the records: a new upload creates its record before its content.
        contents = set() if count_only else await self._contents.subjects(">")
        count = 0
        values = [(each, _Record(**json.loads(each.value))) for each in await self._records.list("")]
        blobs = {record.id for _, record in values if record.complete}
        for value, record in values:
            contents.discard(record.id)
            if record.complete or record.used_ns >= before_ns or value.key in self._busy:
                continue
            if record.id in blobs:  # Its process was killed when the blob was complete.
                await self._records.cas(value.key, None, value.revision)
            elif count_only or await self._remove(value.key, record, value.revision):
                count += 1
        for id_ in contents:
            await self._contents.purge(id_)
        return count


async def _file_chunks(path: Path, offset: int) -> AsyncGenerator[bytes, None]:
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := await asyncio.to_thread(file.read, MESSAGE_BYTES):
            yield chunk


def _upload_key(digest: Digest, owner: str) -> str:
    return f"{as_digest(digest)}/{owner}"


class _Incomplete(Exception):
    """A message of the content is missing on every replica that answered."""
