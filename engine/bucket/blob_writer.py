"""A new blob's temporary file and running sha256.

Methods block, and raise `BucketError` when the disk fails.
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
    """Writes one blob to a temporary file."""

    def __init__(self, folder: Path) -> None:
        try:
            self._descriptor, name = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise disk_error(folder, error) from error
        self.path = Path(name)
        self._sha256 = hashlib.sha256()

    @property
    def digest(self) -> Digest:
        """Digest of the data written so far."""
        return Digest(self._sha256.hexdigest())

    def write(self, chunk: bytes) -> None:
        """Append a chunk."""
        self._sha256.update(chunk)
        try:
            write_all(self._descriptor, chunk)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def copy(self, source: Path) -> None:
        """Append a whole file. Raises OSError if the source cannot be read."""
        with source.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                self.write(chunk)

    def commit(self) -> None:
        """Sync the file to disk and make it read-only."""
        try:
            commit_file(self._descriptor)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def close(self) -> None:
        """Close the file, and delete it unless it was renamed."""
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


def commit_file(descriptor: int) -> None:
    """Sync a file to disk and make it read-only. Raises OSError."""
    os.fchmod(descriptor, READ_ONLY)
    durable.sync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data, also when the system writes only a part at first. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
