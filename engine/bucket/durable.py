"""Writing so that it is there after a power cut. Owns the order of the steps: content, name, folder."""

import fcntl
import os
from pathlib import Path

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""Where fsync leaves the content in the disk's own memory (macOS), the call that does not."""


def sync(descriptor: int) -> None:
    """Wait until an open file or folder is on disk. Raises OSError."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
        except OSError:  # not every file system there has it
            pass
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Give a file, whose content is on disk, its name. Raises OSError."""
    source.replace(target)
    sync_folder(target.parent)


def write(target: Path, content: bytes) -> None:
    """Replace a small file whole, by way of `<name>.new` beside it. Raises OSError."""
    new = target.with_name(target.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    rename(new, target)
