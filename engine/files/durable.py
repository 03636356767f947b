"""Writes that survive a power cut: content first, then the name, then the folder."""

import fcntl
import os
from pathlib import Path

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The macOS call that flushes the disk's own cache, which fsync does not."""


def sync(descriptor: int) -> None:
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
        sync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename a synced file and flush its new name. Raises OSError."""
    source.replace(target)
    sync_folder(target.parent)


def write(target: Path, content: bytes) -> None:
    """Replace a small file atomically, through `<name>.new` beside it. Raises OSError."""
    new = target.with_name(target.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    rename(new, target)
