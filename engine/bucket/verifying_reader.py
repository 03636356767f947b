"""Reads a blob's file and verifies its sha256. Blocks."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from engine.bucket.errors import BlobMissing, disk_error
from engine.bucket.protocols import Digest

CHUNK_BYTES = 1 << 20


class CorruptContent(Exception):
    """The content does not match the digest; `inode` is that of the file."""

    def __init__(self, inode: int) -> None:
        super().__init__(inode)
        self.inode = inode


class VerifyingReader:
    """Reads one blob from the beginning."""

    def __init__(self, path: Path, digest: Digest) -> None:
        """Raises `BlobMissing` and `BucketError`."""
        self._path, self._digest = path, digest
        try:
            self._file: BinaryIO = path.open("rb")
        except FileNotFoundError as error:
            raise BlobMissing(digest) from error
        except OSError as error:
            raise disk_error(path, error) from error
        self._sha256 = hashlib.sha256()
        self._next_chunk = b""
        self._started = False

    def next(self) -> bytes:
        """Return a chunk, empty at the end.

        Reads one chunk ahead, so that the last one is returned only after verification. Raises
        `CorruptContent` and `BucketError`.
        """
        if not self._started:
            self._started, self._next_chunk = True, self._read()
        chunk, self._next_chunk = self._next_chunk, self._read() if self._next_chunk else b""
        return chunk

    def rest(self) -> None:
        """Read to the end. Raises as `next` does."""
        while self._read():
            pass

    def _read(self) -> bytes:
        try:
            chunk = self._file.read(CHUNK_BYTES)
        except OSError as error:
            raise disk_error(self._path, error) from error
        self._sha256.update(chunk)
        if not chunk and self._sha256.hexdigest() != self._digest:
            raise CorruptContent(os.fstat(self._file.fileno()).st_ino)
        return chunk

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def digest_of(path: Path) -> Digest:
    """Return the sha256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return Digest(hashlib.file_digest(file, "sha256").hexdigest())
