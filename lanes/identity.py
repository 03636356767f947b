"""Digest for `Lane.identity` of a lane's tools on disk and of svc's own code.

It starts no process, so every start of `svc` can compute it.
"""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_BUILD_OUTPUTS = {"__pycache__", "node_modules", "target"}
"""Folders that tools create among svc's sources."""


def identity(programs: Iterable[str | Path | None], environ: Mapping[str, str] | None = None) -> str:
    """Return a digest (hex) of these programs, these variables and the code of the lanes.

    A program counts by its real path, size and modification time; `None` and missing programs count too. A
    proxy such as rustup's `cargo` does not change with its target, so pass the target too.
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
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


@cache
def _own_code() -> str:
    """Return a digest of all files of the lanes and the version of svc."""
    root = Path(__file__).parent
    digest = sha256(version("svc-tui").encode())
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _BUILD_OUTPUTS)
        for path in (Path(folder) / name for name in sorted(files)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
