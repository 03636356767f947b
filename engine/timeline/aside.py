"""Puts a timeline's file aside that can not be read any more, so that another can take its place."""

import fcntl
import itertools
import os
import time
from pathlib import Path

from engine.timeline.database import DamagedTimeline, Database, TimelineError

_PARTS = ("", "-wal", "-shm")


def put_aside(path: Path) -> Path | None:
    """Rename a damaged file and return its new place, or `None` where another process has done so before.

    Raises `TimelineError` when it can not be renamed.
    """
    try:
        lock = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise _error(path, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _renamed(path) if _damaged(path) else None
    except OSError as error:
        raise _error(path, error) from error
    finally:
        os.close(lock)


def _damaged(path: Path) -> bool:
    try:
        database = Database(path, write=False)
    except DamagedTimeline:
        return True
    except TimelineError:
        return False
    try:
        return bool(database.run("pragma quick_check(1)") != [("ok",)])
    except DamagedTimeline:
        return True
    finally:
        database.close()


def _renamed(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    names = (f"{path.stem}-damaged-{stamp}-{number}{path.suffix}" for number in itertools.count(1))
    place = next(place for place in map(path.with_name, names) if not place.exists())
    for part in _PARTS:
        source = path.with_name(path.name + part)
        if source.exists():
            source.rename(place.with_name(place.name + part))
    return place


def _error(path: Path, error: OSError) -> TimelineError:
    return TimelineError(
        f"the damaged timeline in {path} can not be put aside: {error.strerror}",
        "Move the file away to begin anew.",
    )
