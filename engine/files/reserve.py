"""The reserve of a disk: space that large files of projects do not take, so that small ones still grow."""

import errno
import os
from pathlib import Path

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
