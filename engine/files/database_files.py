"""An SQLite database file with its side files, which belong together."""

import shutil
from pathlib import Path

import apsw

_PIECE_BYTES = 1 << 20
_PARTS = ("", "-wal", "-shm", "-journal")


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + part) for part in _PARTS]


def database_size(path: Path) -> int:
    """Return the bytes of a database file and its side files on disk."""
    return sum(file.stat().st_size for file in _files(path) if file.exists())


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
