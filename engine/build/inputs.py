"""What a Resource is built from, as one digest: its files, by the watcher's rules.

Owns the walk and its bounds; what else an artifact depends on is `build_cache.py`'s.
"""

import os
import stat
from collections.abc import Iterator
from hashlib import file_digest, sha256
from pathlib import Path

from engine.build.ignore import IgnoreRules
from engine.lane import GENERATED_HEADER
from engine.manifest import MANIFEST
from engine.manifest.model import Resource

MAX_FILES = 50_000
MAX_BYTES = 1 << 30
_WRITTEN = GENERATED_HEADER.encode()


class TooManyInputs(Exception):
    """There is more to read than a build would save."""


def input_digest(resource: Resource, root: Path) -> str:
    """Return the sha256 (hex) of a Resource's files: names and contents. Raises `TooManyInputs` and OSError.

    These are the files of `workdir` that the watcher heeds, without what its build command writes to
    `output` and what svc itself leaves there; for a static Resource without `build`, everything in `output`.
    """
    served = resource.build is None and resource.output is not None
    folder = resource.output if served and resource.output is not None else resource.workdir
    ignore = None if served else IgnoreRules(root)
    own = None if served else resource.output
    digest, size = sha256(), 0
    for count, path in enumerate(_files(folder, root, ignore, own)):
        found = path.stat()
        size += found.st_size
        if count >= MAX_FILES or size > MAX_BYTES:
            raise TooManyInputs(str(folder))
        if not served and _is_generated(path):
            continue
        executable = bool(found.st_mode & 0o111)
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name!r} {executable} {content_digest(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def content_digest(path: Path) -> str:
    """Return the sha256 (hex) of a file. Raises OSError."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _is_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_WRITTEN)) == _WRITTEN


def _files(folder: Path, root: Path, ignore: IgnoreRules | None, own: Path | None) -> Iterator[Path]:
    """Yield regular files in a fixed order; links to folders are followed inside the Project, once each."""
    waiting, seen = [folder], set[str]()
    while waiting:
        here = waiting.pop()
        real = os.path.realpath(here)
        if real in seen:
            continue
        seen.add(real)
        with os.scandir(here) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = here / entry.name
            if path == own or (ignore is not None and path == root / MANIFEST):
                continue
            try:
                kind = path.stat().st_mode
            except OSError:
                continue
            if stat.S_ISDIR(kind):
                inside = not entry.is_symlink() or path.resolve().is_relative_to(root)
                if inside and not (ignore is not None and ignore.folder(path)):
                    waiting.append(path)
            elif stat.S_ISREG(kind) and not (ignore is not None and ignore(path)):
                yield path
