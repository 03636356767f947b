"""Reading a blob's file and seeing to it that it is what its name says. Owns that check. Blocks."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from engine.bucket.errors import BlobMissing, disk_error
from engine.bucket.protocols import Digest

CHUNK_BYTES = 1 << 20


class CorruptContent(Exception):
    """The content is not the one that the name says; `inode` is the file that was read."""

    def __init__(self, inode: int) -> None:
        super().__init__(inode)
        self.inode = inode


class VerifyingReader:
    """One blob, from its beginning."""

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
        self._ahead = b""
        self._begun = False

    def next(self) -> bytes:
        """Return a chunk, empty at the end.

        One is read ahead, so that the last is given out when the whole has been seen only. Raises `Damaged`
        and `BucketError`.
        """
        if not self._begun:
            self._begun, self._ahead = True, self._read()
        chunk, self._ahead = self._ahead, self._read() if self._ahead else b""
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
        """Let go of the file."""
        self._file.close()


def digest_of(content: bytes | Path) -> Digest:
    """Return the sha256 of bytes or of a file. Raises OSError."""
    if isinstance(content, bytes):
        return Digest(hashlib.sha256(content).hexdigest())
    with content.open("rb") as file:
        return Digest(hashlib.file_digest(file, "sha256").hexdigest())
