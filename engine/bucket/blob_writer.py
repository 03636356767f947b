"""A content on its way into the bucket: a temporary file, and the sha256 of what was written so far.

Owns that file until it has a name or is gone. Methods block, and raise `BucketError` when the disk fails.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from engine.bucket import durable
from engine.bucket.errors import disk_error
from engine.bucket.protocols import Digest
from engine.bucket.verifying_reader import CHUNK_BYTES

READ_ONLY = 0o444


class BlobWriter:
    """One content."""

    def __init__(self, folder: Path) -> None:
        try:
            self._descriptor, name = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise disk_error(folder, error) from error
        self.path = Path(name)
        self._sha256 = hashlib.sha256()

    @property
    def digest(self) -> Digest:
        """What was written so far."""
        return Digest(self._sha256.hexdigest())

    def write(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._sha256.update(chunk)
        try:
            write_all(self._descriptor, chunk)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def copy(self, source: Path) -> None:
        """Add a whole file. Raises OSError too, for the source."""
        with source.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                self.write(chunk)

    def commit(self) -> None:
        """Have the content on disk, never to be written again."""
        try:
            commit_file(self._descriptor)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def close(self) -> None:
        """Let go of the file, which goes if it has no name of its own by now."""
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


def commit_file(descriptor: int) -> None:
    """Have a file's content on disk, never to be written again. Raises OSError."""
    os.fchmod(descriptor, READ_ONLY)
    durable.sync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it: a disk that fills up takes a part first. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
