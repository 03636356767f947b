"""Which files a bucket's folder has, by version. Owns the file `version` and the way up to this one.

A step from one version to the next may be cut off anywhere and is then taken again, so each is written to
find its own work half done. The version is raised when the step is over.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.bucket import durable
from engine.bucket.errors import BucketError, disk_error
from engine.bucket.lock import LOCK

VERSION = "version"
BLOBS = "blobs"
UPLOADS = "uploads"
INCOMING = "incoming"
DAMAGED = "damaged"
CONTROL = "control.db"

CURRENT = 1
Step = Callable[[Path], None]
STEPS: Mapping[int, Step] = {}
"""By version: what makes a folder of it one of the next."""

_LINE = re.compile(r"svc bucket, layout ([1-9][0-9]{0,8})\n")


def prepare(root: Path, *, current: int = CURRENT, steps: Mapping[int, Step] = STEPS) -> None:
    """Make a folder whose lock is held a bucket of the current version. Raises `BucketError`."""
    try:
        version = _version(root)
        if version is None:
            check_format(root)
            _write(root, current)
            version = current
        if version > current:
            raise BucketError(
                f"the bucket {root} was written by a newer svc (layout {version}, this one knows {current})",
                "Update svc, or use another folder.",
            )
        while version < current:
            steps[version](root)
            version += 1
            _write(root, version)
        for name in (BLOBS, UPLOADS, INCOMING, DAMAGED):
            (root / name).mkdir(exist_ok=True)
        durable.sync_folder(root)
        for left in (root / INCOMING).iterdir():
            left.unlink()
    except OSError as error:
        raise disk_error(Path(error.filename or root), error) from error


def _version(root: Path) -> int | None:
    try:
        text = (root / VERSION).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    found = _LINE.fullmatch(text)
    if found is None:
        raise BucketError(
            f"{root / VERSION} does not say which layout the bucket has",
            f"Restore it from a copy; a bucket of this svc has the line: svc bucket, layout {CURRENT}",
        )
    return int(found[1])


def _write(root: Path, version: int) -> None:
    durable.write(root / VERSION, f"svc bucket, layout {version}\n".encode())


def check_format(root: Path) -> None:
    """Refuse to put a bucket between somebody's files; the lock need not be held. Raises `BucketError`."""
    try:
        others = sorted(path.name for path in root.iterdir() if path.name not in {LOCK, VERSION + ".new"})
        begun = (root / VERSION).exists()
    except OSError as error:
        raise disk_error(root, error) from error
    if others and not begun:
        raise BucketError(
            f"{root} is not empty and no bucket: it has {others[0]!r}",
            "Name an empty folder, or one that svc made.",
        )
