"""What goes wrong with a bucket, for people and for those who call. Owns the errors and their words."""

import errno
from pathlib import Path

from engine.errors import SvcError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}


class BucketError(SvcError):
    """The bucket can not do what it was asked."""

    code = "bucket"


class DiskError(BucketError):
    """The disk does not do its part; `reason` is the system's word."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(
            f"the bucket can not use {path}: {reason}",
            hint,
            public_message=f"the service can not use its disk: {reason}",
        )


class BucketInUse(BucketError):
    """Another process has the bucket open."""

    code = "bucket-in-use"


class BucketClosed(BucketError):
    """The bucket was closed meanwhile."""

    code = "bucket-closed"

    def __init__(self) -> None:
        super().__init__("the bucket is closed")


class BadName(BucketError):
    """A key, the name of a log or a digest is none."""

    code = "bucket-bad-name"


class TooLarge(BucketError):
    """A value is longer than cells and logs take."""

    code = "bucket-too-large"

    def __init__(self, name: str, size: int, most: int) -> None:
        super().__init__(
            f"{size} bytes are too many for {name}", f"It takes {most} bytes; keep more as a blob."
        )


class BlobMissing(BucketError):
    """There is no such blob."""

    code = "blob-missing"

    def __init__(self, digest: str) -> None:
        super().__init__(f"there is no blob sha256:{digest}", "Deploy again what it belongs to.")


class BlobCorrupt(BucketError):
    """What is kept is not what was put."""

    code = "blob-damaged"

    def __init__(self, digest: str, aside: Path | None = None) -> None:
        kept = f"; the file is kept as {aside}" if aside is not None else ""
        changed = f"the blob sha256:{digest} has changed on disk"
        super().__init__(
            f"{changed}{kept}",
            "Deploy again what it belongs to, and check the disk.",
            public_message=changed,
        )


class DigestMismatch(BucketError):
    """What was sent is not what it was said to be."""

    code = "digest-mismatch"

    def __init__(self, digest: str, found: str) -> None:
        super().__init__(f"what was sent as sha256:{digest} is {found}", "Send it again, from its beginning.")


class UploadBusy(BucketError):
    """Another upload of the same content is under way."""

    code = "upload-busy"

    def __init__(self, digest: str) -> None:
        super().__init__(f"sha256:{digest} is being uploaded by another", "Wait for it, or try again later.")


def is_disk_full(error: OSError) -> bool:
    """Whether a disk is full, or somebody's share of it."""
    return error.errno in _NO_ROOM


def disk_error(path: Path, error: OSError) -> DiskError:
    """Return the error for a person: which file, why, and what to do."""
    if is_disk_full(error):
        hint = "Make room on its disk and try again."
    elif error.errno in _NOT_ALLOWED:
        hint = "Check that the folder, and all in it, can be written by the user who runs svc."
    else:
        hint = "Check the folder and its disk."
    return DiskError(path, error.strerror or str(error), hint)
