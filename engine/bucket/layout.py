"""Folder layout of a bucket, its version file and its lock."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.bucket.protocols import BucketError, BucketInUse, disk_error, disk_errors
from engine.files.atomic import sync_folder, write_atomic

VERSION = "version"
BLOBS = "blobs"
UPLOADS = "uploads"
DAMAGED = "damaged"
CONTROL = "control.db"
LOCK = "lock"
MOVED = "moved"
"""File of a bucket whose content was moved; it names the place."""
MAX_HOLDER_BYTES = 200
_OF_AN_EMPTY_FOLDER = re.compile(rf"{LOCK}|{VERSION}\.new|\.{VERSION}-.*\.tmp|lost\+found")
"""Files that an interrupted creation leaves, and the folder in the root of an ext4 filesystem."""

CURRENT = 10
"""Raise it with each change of what a data directory stores, so that an older svc refuses the folder."""
_LINE = re.compile(r"svc bucket, layout ([1-9][0-9]{0,8})\n")


def prepare(root: Path) -> None:
    """Create or upgrade the bucket in a folder whose lock is held. Raises `BucketError`."""
    try:
        if (root / MOVED).exists():
            location = (root / MOVED).read_text()
            hint = f"Use that. To use the old content here, remove {root / MOVED}."
            raise BucketError(f"the bucket {root} was moved to {location}", hint)
        version = _version(root)
        if version is None:
            check_format(root)
        elif version > CURRENT:
            message = f"a newer svc wrote the bucket {root} (layout {version}; this svc supports {CURRENT})"
            raise BucketError(message, "Update svc, or use another folder.")
        if version != CURRENT:
            write_atomic(root / VERSION, f"svc bucket, layout {CURRENT}\n".encode(), sync=True)
            sync_folder(root)
        for name in (BLOBS, UPLOADS, DAMAGED):
            (root / name).mkdir(exist_ok=True)
        sync_folder(root)
    except OSError as error:
        raise disk_error(Path(error.filename or root), error) from error


def mark_moved(root: Path, location: str) -> None:
    """Mark a bucket as moved to a place, so that it is not opened again. Raises `BucketError`."""
    with disk_errors(root):
        write_atomic(root / MOVED, location.encode(), sync=True)
        sync_folder(root)


def _version(root: Path) -> int | None:
    try:
        text = (root / VERSION).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    match = _LINE.fullmatch(text)
    if match is None:
        hint = f"Restore it from a backup; its content for this svc is: svc bucket, layout {CURRENT}"
        raise BucketError(f"{root / VERSION} is corrupt", hint)
    return int(match[1])


def check_format(root: Path) -> None:
    """Raise `BucketError` for a non-empty folder that is not a bucket. The lock may be free."""
    with disk_errors(root):
        names = sorted(path.name for path in root.iterdir() if not _OF_AN_EMPTY_FOLDER.fullmatch(path.name))
        has_version = (root / VERSION).exists()
    if names and not has_version:
        hint = "Use an empty folder, or one that svc created."
        raise BucketError(f"{root} is not a bucket and not empty: it has {names[0]!r}", hint)


def lock(root: Path, opened_by: str) -> int:
    """Acquire the lock and return its descriptor; closing it, or the end of the process, releases the lock.

    The file's content names the holder for error messages only. Raises `BucketInUse` and `BucketError`.
    """
    path = root / LOCK
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, MAX_HOLDER_BYTES, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise disk_error(path, error) from error
        hint = "Stop that process first, or use another folder."
        raise BucketInUse(f"the bucket {root} is in use by {holder or 'another process'}", hint) from error
    # A full disk must not prevent opening an existing bucket.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} ({opened_by})\n".encode()[:MAX_HOLDER_BYTES], 0)
    return descriptor


@contextmanager
def locked(root: Path, opened_by: str) -> Iterator[None]:
    """Create a folder unless it exists, and lock it within the context. Raises as `lock` does."""
    with disk_errors(root):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = lock(root, opened_by)
    try:
        yield
    finally:
        os.close(descriptor)
