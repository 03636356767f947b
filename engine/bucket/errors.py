"""Errors of the bucket."""

import errno
from pathlib import Path

from engine.errors import SvcError

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
    """A key, log name or digest is invalid."""

    code = "bucket-bad-name"


class TooLarge(BucketError):
    """A value exceeds the size limit of key-value pairs and logs."""

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
            f"{changed}{moved}",
            "Deploy the project again and check the disk.",
            public_message=changed,
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

    def __init__(self, digest: str) -> None:
        super().__init__(f"another upload of sha256:{digest} is in progress", "Retry later.")


def is_disk_full(error: OSError) -> bool:
    """Return whether the disk or a quota is full."""
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
