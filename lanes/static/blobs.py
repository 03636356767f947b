"""Store of file contents and their compressed forms, shared by all bundles.

Files are `blobs/<sha256>` and `packed/<sha256>.<coding>-<quality>`. Writes are atomic and files never
change, so any number of processes can use the store. It can be deleted at any time.
"""

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import brotli  # type: ignore[import-untyped]

from engine.files.digest import content_digest

_CHUNK = 1024 * 1024
# Compression costs memory and time. Without these limits a large file would delay a build for minutes.
_LARGEST = 128 * 1024 * 1024
_LARGEST_AT_BEST = 8 * 1024 * 1024
_SMALL = 256 * 1024
_QUICK = 5
# At its best quality brotli takes seconds per megabyte, even for random bytes. Contents that the quick
# quality cannot reduce by this fraction stay at that quality.
_WORTH_MORE = 1 / 8


@dataclass(frozen=True, slots=True)
class Blob:
    """A file content: its sha256 (hex) and its size in bytes."""

    sha256: str
    size: int


class BlobStore:
    """File contents by sha256. Methods block and can be called on any thread."""

    def __init__(self, folder: Path, *, verify: bool) -> None:
        """Store all files below `folder`, which is created if missing.

        `verify` compares the digests of cached files, not only their sizes.
        """
        self._verify = verify
        self._blobs = folder / "blobs"
        self._packed = folder / "packed"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._packed.mkdir(parents=True, exist_ok=True)

    def path(self, blob: Blob) -> Path:
        return self._blobs / blob.sha256

    def add(self, source: Path) -> Blob:
        """Add the current content of a file. Raises OSError if it cannot be read."""
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as original, _unnamed(self._blobs) as copy:  # noqa: PTH123
            digest, size = hashlib.sha256(), 0
            while chunk := original.read(_CHUNK):
                digest.update(chunk)
                copy.write(chunk)
                size += len(chunk)
            return self._name(copy, Blob(digest.hexdigest(), size))

    def compressed(self, blob: Blob, coding: str, quality: int) -> Blob | None:
        """Return the `br` or `gzip` form of a blob, or `None` if it is not smaller.

        `quality` is the highest to try: 1 to 11 for `br`, 1 to 9 for `gzip`. The chosen one depends on the
        content alone. Results are cached. Raises OSError.
        """
        if blob.size > _LARGEST:
            return None
        if quality > _QUICK and blob.size > _SMALL:
            quick = self._at(blob, coding, _QUICK)
            if blob.size > _LARGEST_AT_BEST or quick is None:
                return quick
            if blob.size - quick.size < blob.size * _WORTH_MORE:
                return quick
        return self._at(blob, coding, quality)

    def _at(self, blob: Blob, coding: str, quality: int) -> Blob | None:
        note = self._packed / f"{blob.sha256}.{coding}-{quality}"
        recorded = self._known(note)
        if recorded is not None and (recorded.size >= blob.size or self._holds(recorded)):
            return recorded if recorded.size < blob.size else None
        data = self.path(blob).read_bytes()
        compressed = _compress(data, coding, quality)
        result = Blob(hashlib.sha256(compressed).hexdigest(), len(compressed))
        if result.size < blob.size:
            with _unnamed(self._blobs) as copy:
                copy.write(compressed)
                self._name(copy, result)
        with _unnamed(self._packed) as note_file:
            note_file.write(f"{result.sha256} {result.size}".encode())
            note_file.flush()
            os.replace(note_file.name, note)  # noqa: PTH105
        return result if result.size < blob.size else None

    def _holds(self, blob: Blob) -> bool:
        """Return whether the file of a blob exists and is not truncated or altered, as after a power cut."""
        try:
            if self._verify:
                return content_digest(self.path(blob)) == blob.sha256
            return self.path(blob).stat().st_size == blob.size
        except OSError:
            return False

    @staticmethod
    def _known(note: Path) -> Blob | None:
        try:
            sha256, size = note.read_text("ascii").split()
            return Blob(sha256, int(size))
        except (OSError, ValueError):
            return None

    def _name(self, copy: IO[bytes], blob: Blob) -> Blob:
        copy.flush()
        os.fchmod(copy.fileno(), 0o444)
        os.replace(copy.name, self.path(blob))  # noqa: PTH105
        return blob


def _compress(data: bytes, coding: str, quality: int) -> bytes:
    if coding == "br":
        return bytes(brotli.compress(data, quality=quality))
    return gzip.compress(data, compresslevel=quality, mtime=0)


@contextmanager
def _unnamed(folder: Path) -> Iterator[IO[bytes]]:
    """Create a temporary file in `folder`, removed at the end unless it was renamed."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="new-", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def place_blob(source: Path, target: Path) -> None:
    """Place a blob at `target`: a hard link if the file system supports it, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
