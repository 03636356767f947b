"""Puts a database's file aside that can not be read any more, so that another can take its place.

Owns the new name and the order among processes; what is damaged, whoever keeps the file knows.
"""

import fcntl
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import SvcError

_PARTS = ("", "-wal", "-shm", "-journal")


class QuarantineError(SvcError):
    """A damaged file stays where it is."""


def quarantine_database(path: Path, what: str, damaged: Callable[[Path], bool]) -> Path | None:
    """Rename a damaged SQLite file, with what SQLite has beside it, and return its new place.

    `damaged` is asked while no other process renames in this folder; `None` where it says no, as after
    another process has put a new file there. Raises `NotPutAside`, which says `what` the file is, and what
    `damaged` raises.
    """
    try:
        lock = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _renamed(path) if damaged(path) else None
        finally:
            os.close(lock)
    except OSError as error:
        raise QuarantineError(
            f"the damaged {what} in {path} can not be put aside: {error.strerror}",
            "Move the file away to begin anew.",
        ) from error


def _renamed(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    names = (f"{path.stem}-damaged-{stamp}-{number}{path.suffix}" for number in itertools.count(1))
    place = next(place for place in map(path.with_name, names) if not place.exists())
    for part in _PARTS:
        source = path.with_name(path.name + part)
        if source.exists():
            source.rename(place.with_name(place.name + part))
    return place
