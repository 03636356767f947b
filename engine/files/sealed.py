"""Digests of files, and files that end with one, so that a truncated or altered file is detected."""

import os
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path

from engine.files.atomic import write_atomic

SEAL_BYTES = 32
_CHUNK_BYTES = 1 << 20


def content_digest(path: Path) -> str:
    """Return the sha256 (hex) of a file. Raises OSError."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_sealed(target: Path, *content: bytes | memoryview) -> None:
    """Replace a file atomically and flush it to disk; only the user may read it. Raises OSError.

    `content` is in parts.
    """
    digest = sha256()
    for part in content:
        digest.update(part)
    write_atomic(target, *content, digest.digest(), sync=True)


def is_sealed(path: Path) -> bool:
    """Return whether a file exists and is as it was written. Raises OSError if it cannot be read.

    A file that was verified is not read again before its time or size changes.
    """
    try:
        status = path.stat()
        return _is_sealed(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        return False


@lru_cache(maxsize=1024)
def _is_sealed(path: Path, inode: int, size: int, modified_ns: int) -> bool:
    with path.open("rb", buffering=0) as file:
        remaining = os.fstat(file.fileno()).st_size - SEAL_BYTES
        digest = sha256()
        while remaining > 0 and (chunk := file.read(min(remaining, _CHUNK_BYTES))):
            digest.update(chunk)
            remaining -= len(chunk)
        return remaining == 0 and file.read(SEAL_BYTES + 1) == digest.digest()
