"""An SQLite database file with its side files, which belong together."""

import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from engine.errors import SvcError
from engine.files.atomic import file_stamps, locked_folder

_PIECE_BYTES = 1 << 20
_PARTS = ("", "-wal", "-shm", "-journal")


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + part) for part in _PARTS]


def database_size(path: Path) -> int:
    """Return the bytes of a database file and its side files on disk."""
    return sum(file.stat().st_size for file in _files(path) if file.exists())


def database_stamps(path: Path) -> list[tuple[int, int, int]]:
    """Return what changes with each transaction of a database: the stamps of its file and its log."""
    return file_stamps(path, path.with_name(f"{path.name}-wal"))


def move_database(path: Path, target: Path) -> None:
    """Rename a database file and its side files, within one folder or file system. Raises OSError."""
    for source, destination in zip(_files(path), _files(target), strict=True):
        if source.exists():
            source.rename(destination)


def copy_database(path: Path, target: Path) -> None:
    """Copy a database file and its log as they are, within one folder. Raises OSError and SQLite's errors.

    SQLite reads the file: another descriptor, when it is closed, would release the locks of this process.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, target.with_name(target.name + "-wal"))
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        with target.open("wb") as copy:
            for begin in range(0, size := file.xFileSize(), _PIECE_BYTES):
                copy.write(file.xRead(min(_PIECE_BYTES, size - begin), begin))
    finally:
        file.xClose()


def remove_database(path: Path) -> None:
    """Remove a database file and its side files, as far as they exist. Raises OSError."""
    for file in _files(path):
        file.unlink(missing_ok=True)


def quarantine_database(path: Path, name: str, is_corrupt: Callable[[Path], bool]) -> Path | None:
    """Rename a corrupt SQLite file and its side files; return the new path.

    Calls `is_corrupt(path)` under an exclusive lock on the folder. Returns `None` if the file is not corrupt:
    another process may have replaced it. `name` describes the file in the error. Raises `SvcError`, and
    any error of `is_corrupt`.
    """
    try:
        with locked_folder(path.parent):
            if not is_corrupt(path):
                return None
            stamp = time.strftime("%Y%m%dT%H%M%S")
            names = (f"{path.stem}-damaged-{stamp}-{number}{path.suffix}" for number in itertools.count(1))
            destination = next(free for free in map(path.with_name, names) if not free.exists())
            move_database(path, destination)
            return destination
    except OSError as error:
        hint = "Move the file away to start with an empty one."
        raise SvcError(f"cannot move the corrupt {name} {path}: {error.strerror}", hint) from error
