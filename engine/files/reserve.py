"""Limits for projects: open files of this process, and the reserve of a disk, in which small files grow."""

import errno
import os
import resource
from pathlib import Path

MAX_OPEN_FILES = 65_536
_SHARE = 8
"""One in eight descriptors is for each kind of files that projects have open."""
RESERVE_SHARE = 0.05
MAX_RESERVE_BYTES = 1 << 30
"""Size of the reserve: a share of the disk, up to a maximum."""


def shortage(place: Path | int) -> str:
    """Return that less than the reserve of a disk is free, or an empty string. Raises `OSError`.

    `place` is a folder on the disk, or the descriptor of an open file.
    """
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    reserve = min(int(disk.f_blocks * disk.f_frsize * RESERVE_SHARE), MAX_RESERVE_BYTES)
    if free >= reserve:
        return ""
    return f"only {free >> 20} MiB of the disk are free, and {reserve >> 20} MiB are reserved"


def check_room(place: Path | int) -> None:
    """Raise `OSError` (ENOSPC) if less than the reserve of a disk is free."""
    if reason := shortage(place):
        raise OSError(errno.ENOSPC, reason)


def fd_limit() -> int:
    """Return how many files this process may have open, connections among them."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def share_of_files(files: int) -> int:
    """Return how many owners of one kind, with so many files each, may have theirs open at once."""
    return max(1, fd_limit() // _SHARE // files)
