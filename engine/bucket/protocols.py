"""Protocols of a bucket and its `KeyValue`, their values and errors; `engine.bucket.blobs` has its `Blobs`.

They are asynchronous; the embedded bucket runs blocking calls on threads. A lost compare-and-set is
returned as `StaleRevision`, so that callers must handle it. All other failures are raised.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NewType, Protocol

from engine.errors import SvcError

if TYPE_CHECKING:
    from engine.bucket.blobs import Blobs

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}


class BucketError(SvcError):
    """A bucket operation failed."""

    code = "bucket"


class DiskError(BucketError):
    """A disk operation failed; `reason` is the system's message."""

    def __init__(self, path: Path, reason: str, hint: str, *, full: bool) -> None:
        super().__init__(
            f"cannot use {path} of the bucket: {reason}",
            hint,
            code="storage-full" if full else None,
            public_message=f"the service cannot use its disk: {reason}",
        )


class BucketInUse(BucketError):
    """Another process has the bucket open."""

    code = "bucket-in-use"


class BucketClosed(BucketError):
    """The bucket is closed."""

    code = "bucket-closed"

    def __init__(self) -> None:
        super().__init__("the bucket is closed")


class BadName(BucketError):
    """A key or digest is invalid."""

    code = "bucket-bad-name"


class TooLarge(BucketError):
    """A value exceeds the size limit."""

    code = "bucket-too-large"

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(f"{name} has {size} bytes; the limit is {limit}", "Store larger values as a blob.")


class BlobMissing(BucketError):
    """The blob does not exist."""

    code = "blob-missing"

    def __init__(self, digest: str) -> None:
        super().__init__(f"blob sha256:{digest} not found", "Deploy the project again.")


class BlobCorrupt(BucketError):
    """A blob's content does not match its digest."""

    code = "blob-damaged"

    def __init__(self, digest: str, quarantined: Path | None = None) -> None:
        moved = f"; the file was moved to {quarantined}" if quarantined is not None else ""
        changed = f"blob sha256:{digest} is corrupt"
        super().__init__(
            f"{changed}{moved}", "Deploy the project again and check the disk.", public_message=changed
        )


class DigestMismatch(BucketError):
    """Uploaded content does not match its declared digest or size."""

    code = "digest-mismatch"

    def __init__(self, digest: str, actual: str) -> None:
        super().__init__(
            f"the upload of sha256:{digest} is {actual}", "Restart the upload from the beginning."
        )


class UploadBusy(BucketError):
    """Another upload of the same blob is in progress."""

    code = "upload-busy"


def is_disk_full(error: OSError) -> bool:
    return error.errno in _NO_ROOM


def disk_error(path: Path, error: OSError) -> DiskError:
    """Return the error for a failed disk operation, with a hint."""
    if is_disk_full(error):
        hint = "Free space on its disk, then retry."
    elif error.errno in _NOT_ALLOWED:
        hint = "Check that the user running svc can write to the folder and all files in it."
    else:
        hint = "Check the folder and its disk."
    return DiskError(path, error.strerror or str(error), hint, full=is_disk_full(error))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise `DiskError` for failed disk operations within the context."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error) from error


Digest = NewType("Digest", str)
"""The sha256 of a blob: 64 lower-case hexadecimal digits."""

PART_BYTES = 1 << 20
"""Bytes of a part of a blob with a check of its own."""
MAX_VALUE_BYTES = 1 << 20
"""Maximum size of a value; larger data belongs in a blob."""
MAX_NAME_LENGTH = 512
"""Maximum length of a key, in characters."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff\U0010ffff]")


@dataclass(frozen=True, slots=True)
class StaleRevision:
    """A compare-and-set failed. `current` is the current revision or byte count.

    `None` means that the key has no value.
    """

    current: int | None


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A listed blob: its size in bytes, and when it was last stored or touched (Unix time in ns)."""

    digest: Digest
    size: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class AddedBlob:
    """A blob that was stored before its digest was known.

    `checks` has the CRC-32 of each part, 4 bytes each.
    """

    digest: Digest
    size: int
    checks: bytes


@dataclass(frozen=True, slots=True)
class VersionedValue:
    """A key with its value and revision."""

    key: str
    value: bytes
    revision: int


class KeyValue(Protocol):
    """Small values by key, each with a revision. Revisions increase over all keys."""

    async def get(self, key: str) -> VersionedValue | None:
        """Return a key's value, or `None`."""

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """Set a value (`None` removes it) if the revision is still `revision`; return the new revision.

        Revision `None` expects no value. Raises `TooLarge`.
        """

    async def list(self, prefix: str) -> list[VersionedValue]:
        """Return the values whose keys have this prefix, sorted by key."""


class Bucket(Protocol):
    """Blobs and key-value pairs."""

    @property
    def blobs(self) -> "Blobs":
        """Artifacts, snapshots and exports."""

    @property
    def kv(self) -> KeyValue:
        """Mutable records."""

    async def aclose(self) -> None:
        """Finish running calls and close the bucket; later calls raise `BucketClosed`."""


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def as_digest(text: str) -> Digest:
    """Return a string, with or without the prefix `sha256:`, as a digest. Raises `BadName`."""
    digest = text.removeprefix("sha256:")
    if not is_digest(digest):
        raise BadName(f"invalid sha256 {text[:80]!r}", "Use 64 lower-case hexadecimal digits.")
    return Digest(digest)


def check_name(name: str) -> str:
    """Return the key if it is valid. Raises `BadName`."""
    if not name or len(name) > MAX_NAME_LENGTH or _NO_NAME.search(name):
        hint = f"Use 1 to {MAX_NAME_LENGTH} characters without control characters."
        raise BadName(f"invalid bucket key {name[:80]!r}", hint)
    return name


def check_value(key: str, value: bytes | None) -> None:
    """Raise `BadName` or `TooLarge` for a key or value that cannot be stored."""
    check_name(key)
    if value is not None and len(value) > MAX_VALUE_BYTES:
        raise TooLarge(f"the value of {key}", len(value), MAX_VALUE_BYTES)
