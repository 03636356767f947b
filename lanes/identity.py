"""What a lane's builds depend on besides the Resource, as a digest for `Lane.identity`: its tools, as they
are on disk, and our own code. Cheap enough for every start of `svc`: it runs nothing.
"""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_MADE = {"__pycache__", "node_modules", "target"}
"""Folders that tools make among our sources."""


def identity(programs: Iterable[str | Path | None], environ: Mapping[str, str] | None = None) -> str:
    """Return a digest (hex) that changes with any of these files, these variables, or the code of the lanes.

    A program counts by its real path, size and time of change; `None` and one that is not there count too.
    A program that only leads to others (rustup's `cargo`) does not change with them: give those as well.
    """
    digest = sha256(_own_code().encode())
    for program in programs:
        digest.update(repr(_stamp(program)).encode())
    digest.update(repr(sorted((environ or {}).items())).encode())
    return digest.hexdigest()


def _stamp(program: str | Path | None) -> tuple[str, int, int] | None:
    if program is None:
        return None
    path = os.path.realpath(program)
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return path, -1, -1
    return path, found.st_size, found.st_mtime_ns


@cache
def _own_code() -> str:
    """Return a digest of all files of the lanes, and our version: they decide what an artifact is."""
    here = Path(__file__).parent
    digest = sha256(version("svc-tui").encode())
    for folder, folders, files in os.walk(here):
        folders[:] = sorted(set(folders) - _MADE)
        for path in (Path(folder) / name for name in sorted(files)):
            digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
