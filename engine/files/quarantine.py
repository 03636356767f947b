"""Moves a corrupt SQLite file out of the way, so that a new one can be created."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import SvcError
from engine.files.atomic import locked_folder
from engine.files.database_files import move_database


def quarantine_database(path: Path, name: str, is_corrupt: Callable[[Path], bool]) -> Path | None:
    """Rename a corrupt SQLite file and its side files; return the new path.

    Calls `is_corrupt(path)` under an exclusive lock on the folder. Returns `None` if the file is not corrupt:
    another process may have replaced it. `name` describes the file in the error. Raises `SvcError`, and
    any error of `is_corrupt`.
    """
    try:
        with locked_folder(path.parent):
            return _move(path) if is_corrupt(path) else None
    except OSError as error:
        raise SvcError(
            f"cannot move the corrupt {name} {path}: {error.strerror}",
            "Move the file away to start with an empty one.",
        ) from error


def _move(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    names = (f"{path.stem}-damaged-{stamp}-{number}{path.suffix}" for number in itertools.count(1))
    destination = next(free for free in map(path.with_name, names) if not free.exists())
    move_database(path, destination)
    return destination
