"""Exclusive lock on a bucket's folder.

The kernel releases the lock when the process ends. The file's content names the holder for error messages
only.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from engine.bucket.errors import BucketInUse, disk_error

LOCK = "lock"
_MOST = 200


def lock(root: Path, opened_by: str) -> int:
    """Acquire the lock and return its descriptor; closing it releases the lock.

    Raises `BucketInUse` and `BucketError`.
    """
    path = root / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise disk_error(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, _MOST, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise disk_error(path, error) from error
        raise BucketInUse(
            f"the bucket {root} is in use by {holder or 'another process'}",
            "Stop that process first, or use another folder.",
        ) from error
    # A full disk must not prevent opening an existing bucket.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} ({opened_by})\n".encode()[:_MOST], 0)
    return descriptor
