"""Moves a corrupt SQLite file out of the way, so that a new one can be created."""

import fcntl
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import SvcError
from engine.files.database_files import move_database


class QuarantineError(SvcError):
    """A corrupt file could not be moved."""


def quarantine_database(path: Path, what: str, damaged: Callable[[Path], bool]) -> Path | None:
    """Rename a corrupt SQLite file and its side files; return the new path.

    Calls `damaged(path)` under an exclusive lock on the folder. Returns `None` if the file is not corrupt:
    another process may have replaced it. `what` names the file in the error. Raises `QuarantineError`, and
    any error of `damaged`.
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
            f"cannot move the corrupt {what} {path}: {error.strerror}",
            "Move the file away to start with an empty one.",
        ) from error


def _renamed(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    names = (f"{path.stem}-damaged-{stamp}-{number}{path.suffix}" for number in itertools.count(1))
    place = next(place for place in map(path.with_name, names) if not place.exists())
    move_database(path, place)
    return place
