"""An SQLite database file with its side files, which belong together."""

import shutil
from pathlib import Path

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
    """Copy a database file and its side files as they are, within one folder. Raises OSError."""
    for source, destination in zip(_files(path), _files(target), strict=True):
        if source.exists():
            shutil.copyfile(source, destination)


def remove_database(path: Path) -> None:
    """Remove a database file and its side files, as far as they exist. Raises OSError."""
    for file in _files(path):
        file.unlink(missing_ok=True)
