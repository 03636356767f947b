"""Temporary folders. Those of a killed process are removed when the next folder of their kind is created."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OWNER = ".svc-owner"
"""File in a temporary folder that its process locks."""


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Create a folder with this prefix in `parent`, or in that of the system, and remove it at the end."""
    remove_abandoned(prefix, parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / f"{_OWNER}.new").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            # From here on, others look for the lock: it is held before the file has its name.
            (folder / f"{_OWNER}.new").rename(folder / _OWNER)
            yield folder


def remove_abandoned(prefix: str, parent: Path | None = None) -> None:
    """Remove the folders with this prefix that killed processes of this user left."""
    for path in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*/{_OWNER}"):
        with suppress(OSError):  # It is in use, or was removed meanwhile.
            if path.parent.lstat().st_uid == os.getuid():
                with path.open() as owner:
                    fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
