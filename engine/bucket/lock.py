"""One process at a time: the lock of a bucket's folder. Owns the file `lock` and the words of who has it.

The lock is the kernel's and ends with its process, however that ends; what the file says is for people only.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from engine.bucket.errors import BucketInUse, disk_error

LOCK = "lock"
_MOST = 200


def lock(root: Path, opened_by: str) -> int:
    """Take the lock and return what to close to give it back. Raises `BucketInUse` and `BucketError`."""
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
    # A full disk keeps nobody from opening what is there.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} ({opened_by})\n".encode()[:_MOST], 0)
    return descriptor
