"""The files of a project: an index in the tables database, and their bytes as blobs.

A blob is durable before its row is committed, so a row never lacks its bytes. A blob without a row is
garbage, which `svc gc` removes a day after its last use. The bytes of removed and replaced files stay for as
long as the history of the tables, from which their rows can be restored.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from engine.bucket.blobs import Blobs
from engine.bucket.protocols import BlobCorrupt, BlobMissing, Digest
from engine.door import Caller, ProblemKind, Session
from engine.errors import SvcError
from engine.quota import NO_QUOTA, Quota

MAX_KEY_BYTES = 512
MAX_BYTES = 5 << 30
"""Maximum size of a file."""
MAX_METADATA_BYTES = 2048
"""Maximum bytes of the header fields and the custom metadata of a file, each as JSON."""
MAX_PAGE = 1000
"""Maximum number of entries of one listing."""
MAX_REMOVED_DAYS = 3650
"""Days after which the record of a removed file itself is removed: the longest history of tables."""
FILES, REMOVED, COUNT = "_svc_files", "_svc_files_removed", "_svc_files_count"
_CREATE = (
    f"""CREATE TABLE IF NOT EXISTS {FILES} (
        key TEXT PRIMARY KEY NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, fields TEXT NOT NULL,
        metadata TEXT NOT NULL, modified_ms INTEGER NOT NULL, checks BLOB NOT NULL) WITHOUT ROWID""",
    f"""CREATE TABLE IF NOT EXISTS {REMOVED} (
        sha256 TEXT PRIMARY KEY NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID""",
    f"CREATE TABLE {COUNT} (one INTEGER PRIMARY KEY, n INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    f"INSERT INTO {COUNT} SELECT 1, count(*), coalesce(sum(size), 0) FROM {FILES}",
    f"""CREATE TRIGGER {FILES}_added AFTER INSERT ON {FILES} BEGIN
        UPDATE {COUNT} SET n = n + 1, bytes = bytes + NEW.size; END""",
    f"""CREATE TRIGGER {FILES}_deleted AFTER DELETE ON {FILES} BEGIN
        UPDATE {COUNT} SET n = n - 1, bytes = bytes - OLD.size; END""",
)
"""The statements that create the index. Triggers count its rows, so that totals cost no scan."""
_COLUMNS = "key, sha256, size, fields, metadata, modified_ms, checks"
T = TypeVar("T")
KINDS = {
    "bad-request": ProblemKind(400, "An option, a header or a number is not valid."),
    "bad-key": ProblemKind(400, "The key is not valid."),
    "length-mismatch": ProblemKind(400, "The body is longer or shorter than its content-length."),
    "incomplete": ProblemKind(400, "The body ended early. Nothing was stored."),
    "bad-signature": ProblemKind(403, "The signed URL was altered, has expired, or is for another request."),
    "not-found": ProblemKind(404, "The file or the path does not exist."),
    "method-not-allowed": ProblemKind(405, "The path has no such method."),
    "precondition": ProblemKind(412, "The file does not meet the condition of the request."),
    "too-large": ProblemKind(413, "The file or its metadata is over its limit."),
    "range": ProblemKind(416, "The file has no bytes in this range."),
    "storage": ProblemKind(500, "The file or the index cannot be read or written."),
    "file-damaged": ProblemKind(500, "The bytes of the file changed on disk, or are missing."),
    "busy": ProblemKind(503, "Another writer is active; try again in a moment."),
    "unavailable": ProblemKind(503, "The fleet does not answer; try again in a moment."),
    "storage-full": ProblemKind(507, "The disk is full."),
    "storage-quota": ProblemKind(507, "The files, or the tables, have reached the quota of their project."),
}


class FileError(SvcError):
    """A file cannot be read or written; `code` is one of `KINDS`."""


@dataclass(frozen=True, slots=True)
class FileDocument:
    """A file. `fields` are the header fields that are sent with it, `metadata` texts of the program."""

    key: str
    size: int
    _: KW_ONLY
    etag: str
    modified: str
    fields: dict[str, str]
    metadata: dict[str, str]


class StoredFile(NamedTuple):
    """A row of the index. `fields` and `metadata` are JSON: the header fields of its responses, and what the
    program stored beside it."""

    key: str
    sha256: str
    size: int
    fields: str
    metadata: str
    modified_ms: int
    checks: bytes

    @property
    def etag(self) -> str:
        """The entity tag, with its quotes."""
        return f'"{self.sha256[:32]}"'

    @property
    def header_fields(self) -> dict[str, str]:
        return json.loads(self.fields)  # type: ignore[no-any-return]

    def describe(self) -> FileDocument:
        """Return the file as JSON shows it."""
        moment = datetime.fromtimestamp(self.modified_ms / 1000, UTC).isoformat(timespec="milliseconds")
        etag, modified = self.etag.strip('"'), moment.replace("+00:00", "Z")
        fields, texts = self.header_fields, json.loads(self.metadata)
        return FileDocument(self.key, self.size, etag=etag, modified=modified, fields=fields, metadata=texts)


Check = Callable[[StoredFile | None], None]
"""Raises an error if the file that a key has, or that it has none, forbids to write it."""


@dataclass(frozen=True, slots=True)
class FileList:
    """A page of files and common prefixes. `cursor` begins the next one, `null` at the end."""

    files: list[FileDocument]
    prefixes: list[str]
    cursor: str | None


class Database(Protocol):
    """The tables database of a project. Its methods block, and raise `SvcError`."""

    def read(self, work: Callable[[Any], T], stale: Session | None = None) -> T:
        """Return the result of a function that reads from a connection, of a stale read of a session."""

    def written(self) -> int:
        """Return the sequence of the last entry of the log that this node has; 0 without a fleet."""

    def write(self, work: Callable[[Any], T], by: Caller | str) -> T:
        """Run a function in a transaction, for a request of a guest or for a user, and return its result."""


def check_key(key: str) -> str:
    """Return a valid key. Raises `FileError` with the reason for another one."""
    reason = ""
    if not key or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        reason = f"it has {len(key.encode('utf-8', 'surrogatepass'))} bytes"
    elif any(each < " " or "\x7f" <= each < "\xa0" or "\ud800" <= each <= "\udfff" for each in key):
        reason = "it has a control character or half of a surrogate pair"
    elif key.startswith("/") or key.endswith("/"):
        reason = "it begins or ends with a slash"
    elif not {"", ".", ".."}.isdisjoint(key.split("/")):
        reason = "one of its segments is empty, `.` or `..`"
    if reason:
        hint = f"Use 1 to {MAX_KEY_BYTES} bytes of UTF-8, in segments between single slashes."
        raise FileError(f"the key {key[:80]!r} is not valid: {reason}", hint, code="bad-key")
    return key


def check_metadata(values: Mapping[str, str], name: str) -> str:
    """Return metadata as JSON. Raises `FileError` above the limit."""
    text = json.dumps(dict(values), ensure_ascii=False, separators=(",", ":"))
    if len(text.encode("utf-8", "surrogatepass")) > MAX_METADATA_BYTES:
        message = f"the {name} have more than {MAX_METADATA_BYTES} bytes"
        raise FileError(message, "Store them in a table.", code="too-large")
    return text


class FileStore:
    """The files of one project. `limit` is the quota of all its files in bytes, or None."""

    def __init__(self, database: Database, blobs: Blobs, quota: Quota = NO_QUOTA) -> None:
        self._database, self._blobs = database, blobs
        self.written = database.written
        self.limit_to(quota)
        self.is_closed = False

    def limit_to(self, quota: Quota) -> None:
        self.limit: int | None = None if quota.files_mb is None else quota.files_mb << 20

    async def find(self, key: str, stale: Session | None = None) -> StoredFile:
        """Return a file, by a stale read of a session if there is one. Raises `FileError`."""
        check_key(key)
        file = await self._read(lambda db: _find(db, key), None, stale)
        if file is None:
            raise _not_found(key)
        return file

    async def read(self, file: StoredFile, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Read the first of some bytes of a file, and return what yields them all.

        Raises `FileError` if bytes are not those that were stored, and `BucketError` later.
        """
        chunks = self._blobs.read_part(Digest(file.sha256), start, stop, file.checks)
        try:
            first = await anext(chunks, b"")
        except (BlobMissing, BlobCorrupt) as error:
            message = f"the bytes of the file {file.key!r} are damaged: {error.public_message}"
            hint = "Store the file again, or restore the service from its backup."
            raise FileError(message, hint, code="file-damaged") from error
        return _chain(first, chunks)

    async def put(
        self,
        key: str,
        chunks: AsyncIterable[bytes],
        check: Check,
        *,
        fields: Mapping[str, str],
        metadata: Mapping[str, str],
        length: int | None = None,
        max_bytes: int = MAX_BYTES,
        by: Caller | str,
    ) -> StoredFile:
        """Store a file; it appears, or replaces the one before, as a whole. Raises `SvcError`.

        `length` is the size that was announced.
        """
        check_key(key)
        texts = check_metadata(fields, "header fields"), check_metadata(metadata, "metadata")
        used = await self._read(lambda db: self._prepare(db, key, check), 0)
        added = await self._blobs.add(self._limited(chunks, length, max_bytes, used))
        modified = time.time_ns() // 10**6
        file = StoredFile(key, added.digest, added.size, *texts, modified, added.checks)
        await self._write(lambda db: self._replace(db, key, file, check), by)
        return file

    async def copy(self, source: str, key: str, check: Check, by: Caller | str) -> StoredFile:
        """Give a file another key, too. Raises `FileError`."""
        check_key(key)

        def work(connection: Any) -> StoredFile:
            file = _find(connection, source)
            if file is None:
                raise _not_found(source)
            file = file._replace(key=key, modified_ms=time.time_ns() // 10**6)
            self._replace(connection, key, file, check)
            return file

        return await self._write(work, by)

    async def delete(self, key: str, check: Check, by: Caller | str) -> bool:
        """Remove a file; return whether it existed. Raises `FileError`."""
        check_key(key)
        if await self._read(lambda db: _find(db, key), None) is None:
            check(None)
            return False
        return await self._write(lambda db: self._replace(db, key, None, check) is not None, by)

    async def list(
        self, prefix: str, delimiter: str, cursor: str, limit: int, stale: Session | None = None
    ) -> FileList:
        """Return the next files whose keys have a prefix, sorted by the bytes of their keys.

        Of keys with the delimiter after the prefix, only the part up to it is returned, once. `cursor`
        is that of the page before.
        """
        start, limit = max(cursor, prefix), min(limit, MAX_PAGE)
        return await self._read(
            lambda db: _page(db, prefix, delimiter, start, limit), FileList([], [], None), stale
        )

    async def usage(self, prefix: str = "") -> tuple[int, int]:
        """Return the number and the bytes of the files whose keys have a prefix."""
        return await self._read(lambda db: _usage(db, prefix), (0, 0))

    async def referenced(self, since_ms: int) -> set[Digest]:
        """Return the digests of all files, and of those that were removed since a time."""
        sql = f"SELECT sha256 FROM {FILES} UNION SELECT sha256 FROM {REMOVED} WHERE at_ms >= ?"
        return await self._read(lambda db: {Digest(row[0]) for row in db.execute(sql, (since_ms,))}, set())

    async def _read(self, work: Callable[[Any], T], missing: T, stale: Session | None = None) -> T:
        """Return the result of reading the index, `missing` if there is none."""
        return await asyncio.to_thread(
            self._database.read, lambda db: work(db) if _exists(db) else missing, stale
        )

    async def _write(self, work: Callable[[Any], T], by: Caller | str) -> T:
        if self.is_closed:
            raise FileError("the project was removed; nothing was stored", code="unavailable")
        return await asyncio.to_thread(self._database.write, work, by)

    def _prepare(self, connection: Any, key: str, check: Check) -> int:
        """Check a condition before bytes are read; return the bytes of other files if there is a limit."""
        before = _find(connection, key)
        check(before)
        if self.limit is None:
            return 0
        return _usage(connection, "")[1] - (before.size if before is not None else 0)

    async def _limited(
        self, chunks: AsyncIterable[bytes], length: int | None, max_bytes: int, used: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield a body within its limits. Raises `FileError` for another length than the announced one."""

        def check(size: int) -> None:
            if size > max_bytes:
                signed = "The signed URL permits no more."
                hint = "Store it in parts, as several files." if max_bytes == MAX_BYTES else signed
                raise FileError(f"the file has more than {max_bytes} bytes", hint, code="too-large")
            if self.limit is not None and used + size > self.limit:
                raise _over_quota(self.limit)

        check(length or 0)
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            check(size)
            yield chunk
        if length is not None and size != length:
            message = f"content-length is {length}, but the body has {size} bytes; nothing was stored"
            raise FileError(message, "Send the exact length, or none.", code="length-mismatch")

    def _replace(self, connection: Any, key: str, file: StoredFile | None, check: Check) -> StoredFile | None:
        """Replace or remove a row; return the one before."""
        if not _exists(connection, COUNT):
            for statement in _CREATE:
                connection.execute(statement)
        before = _find(connection, key)
        check(before)
        if file is not None and self.limit is not None:
            size = file.size - (before.size if before is not None else 0)
            if size > self.limit - _usage(connection, "")[1]:
                raise _over_quota(self.limit)
        if before is not None:
            now = time.time_ns() // 10**6
            sql = f"INSERT INTO {REMOVED} VALUES (?, ?) ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms"
            connection.execute(sql, (before.sha256, now))
            expired = now - MAX_REMOVED_DAYS * 86_400_000
            connection.execute(f"DELETE FROM {REMOVED} WHERE at_ms < ?", (expired,))
            connection.execute(f"DELETE FROM {FILES} WHERE key = ?", (key,))
        if file is not None:
            connection.execute(f"INSERT INTO {FILES} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", file)
        return before


async def _chain(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        if first:
            yield first
        async for chunk in chunks:
            yield chunk


def _exists(connection: Any, table: str = FILES) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE name = ?"
    return connection.execute(sql, (table,)).fetchone() is not None


def _find(connection: Any, key: str) -> StoredFile | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM {FILES} WHERE key = ?", (key,)).fetchone()
    return None if row is None else StoredFile(*row)


def _usage(connection: Any, prefix: str) -> tuple[int, int]:
    sql = f"SELECT n, bytes FROM {COUNT}"
    if prefix or not _exists(connection, COUNT):
        # No key has the byte FF.
        after = "?1 || CAST(x'FF' AS TEXT)"
        sql = f"SELECT count(*), coalesce(sum(size), 0) FROM {FILES} WHERE key >= ?1 AND key < {after}"
    count, size = connection.execute(sql, (prefix,) if "?1" in sql else ()).fetchone()
    return count, size


def _page(connection: Any, prefix: str, delimiter: str, start: str, limit: int) -> FileList:
    files: list[FileDocument] = []
    prefixes: list[str] = []
    columns = _COLUMNS.replace("checks", "''")
    sql = f"SELECT {columns} FROM {FILES} WHERE key >= ? ORDER BY key"
    while True:
        for row in connection.execute(sql, (start,)):
            key = row[0]
            if not key.startswith(prefix):
                return FileList(files, prefixes, None)
            if len(files) + len(prefixes) == limit:
                return FileList(files, prefixes, key)
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                prefixes.append(key[: end + len(delimiter)])
                # Delimiters are ASCII: the next character begins all keys after those with this prefix.
                start = prefixes[-1][:-1] + chr(ord(delimiter[-1]) + 1)
                break
            files.append(StoredFile(*row).describe())
        else:
            return FileList(files, prefixes, None)


def _not_found(key: str) -> FileError:
    return FileError(f"there is no file {key!r}", code="not-found")


def _over_quota(limit: int) -> FileError:
    message = f"the files have reached the project's quota of {limit >> 20} MiB"
    hint = "Delete files, or ask an owner of the service to run: svc quota set PROJECT --files MIB"
    return FileError(message, hint, code="storage-quota")
