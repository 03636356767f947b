"""What a bucket is asked: Blobs, Cells and Log, and the values that cross them.

Owns no storage. The Protocols are asynchronous: a fleet keeps its bucket on other machines, and those who
call stand on an event loop in any case; the folder's own files are written on threads. A lost race is an
answer (`Conflict`), so that nobody forgets it; everything else that goes wrong is raised (`errors.py`).
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from pathlib import Path
from typing import NewType, Protocol

from engine.bucket.errors import BadName

Digest = NewType("Digest", str)
"""The sha256 of a content: 64 hexadecimal digits, lower case."""

MAX_VALUE_BYTES = 1 << 20
"""How long the value of a cell or an entry of a log may be; what is longer belongs into a blob."""
MAX_NAME_LENGTH = 512
"""How many characters a key or the name of a log may have."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody was faster. `found` is what is there: a revision, a sequence number, or a count of bytes.

    `None` stands for a cell without a value.
    """

    current: int | None


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob in a listing: its size in bytes, and when it was last put or kept (Unix epoch, ns)."""

    digest: Digest
    size: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class VersionedValue:
    """A cell as it is now. `value` is `None` when it was removed, which only those who watch see."""

    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log; `seq` counts from 1 and never comes twice, whatever was trimmed."""

    seq: int
    content: bytes


class Blobs(Protocol):
    """Immutable contents by their sha256. What is put is durable when the call returns."""

    async def put(self, content: bytes | Path | AsyncIterable[bytes], digest: Digest | None = None) -> Digest:
        """Keep a content: bytes, a file as it is now, or chunks as they come.

        Raises `DigestMismatch` when it is not the one that `digest` names; what it raises, and what `content`
        raises, leaves nothing behind.
        """
        ...

    async def get(self, digest: Digest) -> bytes:
        """Return a whole content. Raises `BlobMissing` and `BlobDamaged`."""
        ...

    def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """Yield a content in chunks. Raises as `get` does, damage before the last chunk: none is whole."""
        ...

    async def copy_to(self, digest: Digest, target: Path) -> None:
        """Have a content at a path that is free, to be read there only. Raises as `get` does, and OSError."""
        ...

    async def verify(self, digest: Digest) -> None:
        """Read a content and throw it away. Raises as `get` does."""
        ...

    async def exists(self, digest: Digest) -> bool:
        """Whether there is such a blob; it may be damaged."""
        ...

    async def touch(self, digest: Digest) -> bool:
        """Do as `exists`, and have a blob that is there count as used now (`delete`)."""
        ...

    def list(self) -> AsyncGenerator[BlobInfo, None]:
        """Yield all blobs that are there throughout, in no order; others perhaps."""
        ...

    async def delete(self, digest: Digest, before_ns: int) -> bool:
        """Remove a blob unless it was put or kept since that time; whether it was removed."""
        ...

    async def received(self, digest: Digest) -> int:
        """Return how many bytes of an upload are kept: the offset to go on from."""
        ...

    async def upload(
        self, digest: Digest, size: int, offset: int, chunks: AsyncIterable[bytes]
    ) -> int | Conflict:
        """Add to an upload of `size` bytes in all; return how many there are now.

        At `size` bytes it is a blob. Where `chunks` end or raise too early, what came is kept for a later
        call. A wrong `offset` is a conflict with the right one. Raises `DigestMismatch` for what is not the
        content or longer than it, after which the upload begins anew, and `UploadBusy`.
        """
        ...

    async def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """Remove uploads that nothing was added to since that time, or only count them; return how many."""
        ...


class KeyValue(Protocol):
    """Small values by key, each with a revision; revisions grow over all cells together."""

    async def get(self, key: str) -> VersionedValue | None:
        """Return a cell that has a value."""
        ...

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | Conflict:
        """Give a cell a value (`None` removes it) if its revision is still `revision`; return the new one.

        Revision `None` says that it has no value now. Raises `TooLarge`.
        """
        ...

    async def list(self, prefix: str) -> list[VersionedValue]:
        """Return the cells with values whose keys begin so, in the order of keys."""
        ...

    def watch(self, prefix: str, after: int = 0) -> AsyncGenerator[VersionedValue, None]:
        """Yield cells whose keys begin so and that changed after a revision, then each change; never ends.

        In the order of revisions. Who is slow sees the latest value of a cell instead of each, but misses no
        cell. Ends when the bucket is closed.
        """
        ...


class Log(Protocol):
    """Entries in order, by the name of the log; a log is there as soon as it is named."""

    async def append(self, name: str, content: bytes, expect: int | None = None) -> int | Conflict:
        """Add an entry and return its `seq`; with `expect`, only if that is still the last one's (0: none).

        Raises `TooLarge`.
        """
        ...

    async def last(self, name: str) -> int:
        """Return the `seq` of the last entry ever added, 0 where there was none."""
        ...

    async def read(self, name: str, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        """Return at most `limit` entries after a `seq`. A gap before the first one tells what was trimmed."""
        ...

    def follow(self, name: str, after: int = 0) -> AsyncGenerator[LogEntry, None]:
        """Yield what `read` returns, then each new entry. Ends when the bucket is closed."""
        ...

    async def trim(self, name: str, upto: int) -> None:
        """Remove the entries up to a `seq`, that one included."""
        ...


class Bucket(Protocol):
    """The three together."""

    @property
    def blobs(self) -> Blobs:
        """Contents: artifacts, snapshots, exports."""
        ...

    @property
    def kv(self) -> KeyValue:
        """What changes: records and routes."""
        ...

    @property
    def log(self) -> Log:
        """What happened."""
        ...

    async def aclose(self) -> None:
        """Finish what is under way and let go of everything; later calls raise `BucketClosed`."""
        ...


def is_digest(text: str) -> bool:
    """Whether a text is a `Digest`."""
    return _DIGEST.fullmatch(text) is not None


def as_digest(text: str) -> Digest:
    """Return a text, with or without `sha256:` before it, as a digest. Raises `BadName`."""
    found = text.removeprefix("sha256:")
    if not is_digest(found):
        raise BadName(f"{text[:80]!r} is no sha256", "It has 64 hexadecimal digits, in lower case.")
    return Digest(found)


def check_name(name: str) -> str:
    """Return the key of a cell or the name of a log if it can be one. Raises `BadName`."""
    if not name or len(name) > MAX_NAME_LENGTH or _NO_NAME.search(name):
        raise BadName(
            f"{name[:80]!r} can not name anything in a bucket",
            f"A name has 1 to {MAX_NAME_LENGTH} characters, none of them a control character.",
        )
    return name
