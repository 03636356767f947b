"""Atomic writes of files, where readers see the old or the new content, links, stamps, and locks of folders.

A write survives a power cut with `sync`, and its name once `sync_folder` has flushed that.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The macOS call that flushes the disk's own cache, which fsync does not."""


def sync_descriptor(descriptor: int) -> None:
    """Flush an open file or folder to disk. Raises OSError."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
        except OSError:  # Not every file system supports it.
            pass
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a synced file and flush its new name. Raises OSError."""
    source.replace(target)
    sync_folder(target.parent)


def write_atomic(
    target: Path, *content: bytes | memoryview, sync: bool = False, like: os.stat_result | None = None
) -> None:
    """Replace a file atomically; only the user may read it. Raises OSError and leaves no partial file.

    `content` is in parts. With `sync`, the content is on disk before the file has its name. With `like`, the
    file has that owner and those permissions.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(content)
            if like is not None:
                # A process that cannot change the owner is the owner, or has write access.
                with suppress(PermissionError):
                    os.fchown(handle, like.st_uid, like.st_gid)
                os.fchmod(handle, like.st_mode & 0o7777)
            if sync:
                file.flush()
                sync_descriptor(handle)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_stamps(*paths: Path) -> list[tuple[int, int, int]]:
    """Return time, size and inode of each file that exists: some differ once one was written or replaced."""
    stamps = []
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return stamps


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against others that do so, of any process, within the context. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def link_or_copy(path: Path, target: Path) -> None:
    """Create a hard link of a file if the file system allows it, else a copy. Raises OSError."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        with path.open("rb") as content, target.open("xb") as copy:
            shutil.copyfileobj(content, copy)
