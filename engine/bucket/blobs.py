"""The blobs of a bucket, and those of a folder: files named by their sha256 in `blobs/`.

A blob is written in `uploads/`, synced, and moved last, so a blob in `blobs/` is complete. A corrupt blob is
moved to `damaged/` beside it, so that the next deploy of the same content restores it.
"""

import asyncio
import hashlib
import math
import os
import secrets
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from engine.bucket import layout
from engine.bucket.protocols import (
    PART_BYTES,
    AddedBlob,
    BlobCorrupt,
    BlobInfo,
    BlobMissing,
    BucketClosed,
    Digest,
    DigestMismatch,
    StaleRevision,
    UploadBusy,
    as_digest,
    disk_error,
    disk_errors,
    is_digest,
    is_disk_full,
)
from engine.cancellation import finish
from engine.files.atomic import link_or_copy, locked_folder, rename_durably, sync_descriptor, sync_folder
from engine.files.reserve import check_room
from engine.files.sealed import content_digest

CHUNK_BYTES = 1 << 20


class CorruptContent(Exception):
    """The content does not match the digest; the argument is the inode of the file."""


def _open(path: Path, digest: Digest) -> BinaryIO:
    with disk_errors(path):
        try:
            return path.open("rb")
        except FileNotFoundError as error:
            raise BlobMissing(digest) from error


def _verified(path: Path, digest: Digest) -> Generator[bytes, None, None]:
    """Yield a blob in chunks, the last one after verification; it is empty if the blob is. Blocks.

    Raises `BlobMissing`, `CorruptContent` and `BucketError`.
    """
    sha256, last = hashlib.sha256(), b""
    with _open(path, digest) as file, disk_errors(path):
        while chunk := file.read(CHUNK_BYTES):
            sha256.update(chunk)
            if last:
                yield last
            last = chunk
        if sha256.hexdigest() != digest:
            raise CorruptContent(os.fstat(file.fileno()).st_ino)
    yield last


def _read_part(file: BinaryIO, number: int, checks: bytes) -> bytes:
    """Return a part of a blob after its own check. Raises `CorruptContent` and `BucketError`."""
    with disk_errors(Path(file.name)):
        file.seek(number * PART_BYTES)
        part = file.read(PART_BYTES)
    if _check(part) != checks[4 * number : 4 * number + 4]:
        raise CorruptContent(os.fstat(file.fileno()).st_ino)
    return part


def _check(part: bytes) -> bytes:
    return zlib.crc32(part).to_bytes(4, "big")


class Upload:
    """Content that is being received, open for appending: a file in `uploads/`. Its methods block.

    They raise `BucketError`.
    """

    def __init__(self, path: Path, digest: Digest | None = None, size: float = math.inf) -> None:
        """`digest` and `size` are those of the whole content, if they are known."""
        self.path = path
        self._digest, self._size = digest, size
        self._discarded = False
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            self.received = os.lseek(self._descriptor, 0, os.SEEK_END)
            if self.received > size:
                os.ftruncate(self._descriptor, 0)
                self.received = os.lseek(self._descriptor, 0, os.SEEK_SET)

    def _drop(self) -> None:
        self._discarded = True
        self.path.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Append a chunk. Raises `DigestMismatch` for excess data.

        Excess data and a full disk discard the upload.
        """
        if self._digest is not None and self.received + len(chunk) > self._size:
            self._drop()
            raise DigestMismatch(self._digest, f"longer than the {self._size} bytes announced")
        try:
            check_room(self._descriptor)
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            if is_disk_full(error):
                self._drop()  # Otherwise it would occupy the disk for days.
            raise disk_error(self.path, error) from error
        finally:
            self.received = os.lseek(self._descriptor, 0, os.SEEK_END)

    def commit(self) -> bool:
        """Sync the received data; return whether the upload is complete.

        Raises `DigestMismatch` for wrong content, which discards the upload.
        """
        if self._discarded:
            return False
        with disk_errors(self.path):
            if self._digest is not None:
                if self.received < self._size:
                    sync_descriptor(self._descriptor)
                    sync_folder(self.path.parent)
                    return False
                actual = content_digest(self.path)
                if actual != self._digest:
                    self._drop()
                    raise DigestMismatch(self._digest, f"sha256:{actual}")
            os.fchmod(self._descriptor, 0o444)
            sync_descriptor(self._descriptor)
        return True

    def close(self) -> None:
        os.close(self._descriptor)

    def discard(self) -> None:
        """Close the file, and remove it unless it was moved."""
        self.close()
        self._drop()


P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", bound="Blobs")
THREADS = 4
PIECE_BYTES = 256 * 1024


def _on_thread(step: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], Coroutine[Any, Any, T]]:
    """Return the method that runs a step on a thread."""

    @wraps(step)
    async def call(blobs: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await blobs._call(step, blobs, *args, **kwargs)

    return call


class Blobs(ABC):
    """Immutable content addressed by sha256. Stored blobs are durable when the call returns.

    Content is received as files in a folder of uploads.
    """

    def __init__(self, uploads: Path) -> None:
        self._uploads = uploads
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bucket")
        self._busy: set[str] = set()
        self._closed = False

    async def _call(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function on a thread and return its result. Raises its errors, and `BucketClosed`."""
        if self._closed:
            raise BucketClosed
        return await finish(asyncio.wrap_future(self._threads.submit(step, *args, **kwargs)))

    async def get(self, digest: Digest) -> bytes:
        """Return a whole blob. Raises `BlobMissing` and `BlobCorrupt`."""
        return b"".join([chunk async for chunk in self.read(digest)])

    @abstractmethod
    def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """Yield a blob in chunks. Raises as `get` does; corruption is raised before the last chunk."""

    @abstractmethod
    def read_part(self, digest: Digest, start: int, stop: int, checks: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` up to `stop`. Raises as `get` does, before bytes that are corrupt."""

    @abstractmethod
    async def copy_to(self, digest: Digest, target: Path) -> None:
        """Copy or link a blob to a new path for reading only. Raises as `get` does, and OSError."""

    @abstractmethod
    async def touch(self, digest: Digest) -> bool:
        """Return whether the blob exists, and mark it as used now (`delete`)."""

    @abstractmethod
    def list(self) -> AsyncGenerator[BlobInfo, None]:
        """Yield the blobs in no order. Blobs added or removed meanwhile may be missing."""

    @abstractmethod
    async def delete(self, digest: Digest, before_ns: int) -> bool:
        """Delete a blob unless it was stored or touched since that time; return whether it was deleted."""

    @abstractmethod
    async def _store(self, path: Path, digest: Digest) -> None:
        """Make a blob of a complete upload. Raises `BucketError`."""

    @_on_thread
    def received(self, digest: Digest, owner: str = "") -> int:
        """Return how many bytes of an owner's upload are stored: the offset to resume at."""
        path = self._uploads / _upload_name(digest, owner)
        with disk_errors(path), suppress(FileNotFoundError):
            return path.stat().st_size
        return 0

    async def upload(
        self, digest: Digest, size: int, offset: int, chunks: AsyncIterable[bytes], owner: str = ""
    ) -> int | StaleRevision:
        """Append to an upload of `size` bytes in total; return the number of bytes stored.

        At `size` bytes it becomes a blob. If `chunks` ends early or raises, the received bytes are retained
        for a later call. A wrong `offset` returns a conflict with the right one. Each owner, such as a
        project, has an upload of its own. Raises `UploadBusy` if it is in progress, and `DigestMismatch` for
        wrong or excess content, which discards the upload.
        """
        if await self.touch(digest):
            return size
        name = _upload_name(digest, owner)
        if name in self._busy:
            raise UploadBusy(f"another upload of sha256:{digest} is in progress", "Retry later.")
        self._busy.add(name)
        try:
            with closing(Upload(self._uploads / name, digest, size)) as upload:
                if offset != upload.received:
                    return StaleRevision(upload.received)
                try:
                    async for piece in rechunk(chunks):
                        await self._call(upload.write, piece)
                finally:
                    if await self._call(upload.commit):
                        await self._store(upload.path, digest)
                return upload.received
        finally:
            self._busy.discard(name)

    async def add(self, chunks: AsyncIterable[bytes]) -> AddedBlob:
        """Store content whose digest is not known. After an error of `chunks`, nothing is stored."""
        path = self._uploads / secrets.token_hex(16)
        sha256, checks = hashlib.sha256(), bytearray()

        def write(piece: bytes) -> None:
            sha256.update(piece)
            for start in range(0, len(piece), PART_BYTES):
                checks.extend(_check(piece[start : start + PART_BYTES]))
            upload.write(piece)

        self._busy.add(path.name)
        try:
            upload = await self._call(Upload, path)
            try:
                async for piece in rechunk(chunks, PART_BYTES):
                    await self._call(write, piece)
                await self._call(upload.commit)
                added = AddedBlob(Digest(sha256.hexdigest()), upload.received, bytes(checks))
                await self._store(path, added.digest)
                return added
            finally:
                # The system takes a part of a second to free gigabytes.
                await finish(asyncio.ensure_future(asyncio.to_thread(upload.discard)))
        finally:
            self._busy.discard(path.name)

    @_on_thread
    def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """Delete uploads without new data since that time, or only count them; return their number."""
        deleted = 0
        with disk_errors(self._uploads):
            for path in self._uploads.iterdir():
                with suppress(FileNotFoundError):
                    if path.name not in self._busy and path.stat().st_mtime_ns < before_ns:
                        if not count_only:
                            path.unlink()
                        deleted += 1
        return deleted

    async def aclose(self) -> None:
        """Wait for what is under way."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)


class FolderBlobs(Blobs):
    """The blobs of a folder.

    It is locked so that no blob is stored or used again between its check and its removal: worker
    processes add blobs, too.
    """

    def __init__(self, root: Path) -> None:
        """Use a prepared folder (`layout.prepare`)."""
        self._folder = root / layout.BLOBS
        self._damaged = root / layout.DAMAGED
        super().__init__(root / layout.UPLOADS)

    def _path(self, digest: Digest) -> Path:
        return self._folder / as_digest(digest)

    @_on_thread
    def _store(self, path: Path, digest: Digest) -> None:
        with disk_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
            with locked_folder(self._folder):
                path.replace(self._path(digest))
            sync_folder(self._folder)

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        with closing(_verified(self._path(digest), digest)) as chunks:
            while chunk := await self._call(self._checked, partial(next, chunks, b""), digest):
                yield chunk

    async def read_part(
        self, digest: Digest, start: int, stop: int, checks: bytes
    ) -> AsyncGenerator[bytes, None]:
        with _open(self._path(digest), digest) as file:
            while start < stop:
                number, skipped = divmod(start, PART_BYTES)
                part = await self._call(self._checked, partial(_read_part, file, number, checks), digest)
                chunk = part[skipped : skipped + stop - start]
                start += len(chunk)
                yield chunk

    def _checked(self, step: Callable[[], T], digest: Digest) -> T:
        """Run a step of reading; move the file to `damaged/` if it is corrupt."""
        try:
            return step()
        except CorruptContent as damaged:
            quarantined = self._damaged / digest
            path = self._path(digest)
            try:
                self._damaged.mkdir(exist_ok=True)
                with locked_folder(self._folder):
                    if (path.stat().st_ino,) == damaged.args:
                        rename_durably(path, quarantined)
                        sync_folder(self._folder)
            except OSError:  # The next write reports a disk that is not writable.
                quarantined = path
            raise BlobCorrupt(digest, quarantined) from damaged

    @_on_thread
    def copy_to(self, digest: Digest, target: Path) -> None:
        """Create a hard link if the file system allows it, else a copy."""
        self._checked(partial(deque, _verified(self._path(digest), digest), 0), digest)
        link_or_copy(self._path(digest), target)

    @_on_thread
    def touch(self, digest: Digest) -> bool:
        """See `Blobs`."""
        path = self._path(digest)
        with disk_errors(path), suppress(FileNotFoundError), locked_folder(self._folder):
            os.utime(path)
            return True
        return False

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        for info in await self._call(_listing, self._folder):
            yield info

    @_on_thread
    def delete(self, digest: Digest, before_ns: int) -> bool:
        """See `Blobs`."""
        path = self._path(digest)
        with disk_errors(path), suppress(FileNotFoundError), locked_folder(self._folder):
            if path.stat().st_mtime_ns < before_ns:
                path.unlink()
                return True
        return False


def _upload_name(digest: Digest, owner: str) -> str:
    return f"{as_digest(digest)}.{owner}" if owner else as_digest(digest)


def _listing(folder: Path) -> list[BlobInfo]:
    """Return the blobs of a folder. Other files and files removed meanwhile are skipped."""
    blobs = []
    with disk_errors(folder):
        for path in filter(lambda path: is_digest(path.name), folder.iterdir()):
            with suppress(FileNotFoundError):
                status = path.stat()
                blobs.append(BlobInfo(Digest(path.name), status.st_size, status.st_mtime_ns))
    return blobs


async def rechunk(chunks: AsyncIterable[bytes], unit: int = PIECE_BYTES) -> AsyncGenerator[bytes, None]:
    """Yield pieces of multiples of `unit` bytes, and a last one. Data before an error is yielded too."""
    waiting: list[bytes] = []
    size = 0
    failure: Exception | None = None
    try:
        async for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if size >= unit:
                data, size = b"".join(waiting), size % unit
                waiting = [data[len(data) - size :]]
                yield data[: len(data) - size]
    except Exception as error:
        failure = error
    if size:
        yield b"".join(waiting)
    if failure is not None:
        raise failure
