"""Resumable uploads: partial blobs in `uploads/<sha256>.<owner>`.

Methods block, and raise `BucketError` when the disk fails.
"""

import os
from contextlib import suppress
from pathlib import Path

from engine.bucket import durable
from engine.bucket.errors import DigestMismatch, disk_error, is_disk_full
from engine.bucket.protocols import Digest
from engine.bucket.verifying_reader import digest_of
from engine.files.reserve import check_room


class Upload:
    """One upload, open for appending."""

    def __init__(self, path: Path, digest: Digest, size: int) -> None:
        self.path = path
        self._digest, self._size = digest, size
        self._discarded = False
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            self.received = os.lseek(self._descriptor, 0, os.SEEK_END)
            if self.received > size:
                os.ftruncate(self._descriptor, 0)
                self.received = os.lseek(self._descriptor, 0, os.SEEK_SET)
        except OSError as error:
            raise disk_error(path, error) from error

    def _drop(self) -> None:
        self._discarded = True
        self.path.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Append a chunk. Raises `DigestMismatch` for excess data.

        Excess data and a full disk discard the upload.
        """
        if self.received + len(chunk) > self._size:
            self._drop()
            raise DigestMismatch(self._digest, f"longer than the {self._size} bytes announced")
        try:
            check_room(self.path.parent)
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            if is_disk_full(error):
                self._drop()  # Otherwise it would occupy the disk for days.
            raise disk_error(self.path, error) from error
        finally:
            self.received = os.lseek(self._descriptor, 0, os.SEEK_END)

    def commit(self) -> bool:
        """Sync the received data; return whether the upload is complete.

        Raises `DigestMismatch` for wrong content, which discards the upload.
        """
        if self._discarded:
            return False
        try:
            if self.received < self._size:
                durable.sync(self._descriptor)
                durable.sync_folder(self.path.parent)
                return False
            actual = digest_of(self.path)
            if actual != self._digest:
                self._drop()
                raise DigestMismatch(self._digest, f"sha256:{actual}")
            os.fchmod(self._descriptor, 0o444)
            durable.sync(self._descriptor)
        except OSError as error:
            raise disk_error(self.path, error) from error
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def received(path: Path) -> int:
    """Return the number of received bytes of an upload."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise disk_error(path, error) from error


def delete_stale(folder: Path, before_ns: int, busy: set[str], count_only: bool) -> int:
    """Delete, or only count, inactive uploads without new data since a time."""
    forgotten = 0
    try:
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if path.name not in busy and path.stat().st_mtime_ns < before_ns:
                    if not count_only:
                        path.unlink()
                    forgotten += 1
    except OSError as error:
        raise disk_error(folder, error) from error
    return forgotten
