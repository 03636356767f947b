"""The embedded bucket: a folder that one process has to itself. Owns how its parts come and go together."""

import os
from pathlib import Path

from engine.bucket import layout
from engine.bucket.blobs import FolderBlobs
from engine.bucket.database import Database
from engine.bucket.errors import disk_error
from engine.bucket.kv import DatabaseKeyValue
from engine.bucket.lock import lock
from engine.bucket.log import DatabaseLog


class FolderBucket:
    """Implements `engine.bucket.protocols.Bucket`."""

    def __init__(self, root: Path, opened_by: str = "svc") -> None:
        """Open a folder, and make it a bucket where there is none or an empty one. Blocks for milliseconds.

        `opened_by` is what others are told who want it meanwhile. Raises `BucketInUse` and `BucketError`.
        """
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise disk_error(root, error) from error
        layout.check_format(root)
        self._lock = lock(root, opened_by)
        try:
            layout.prepare(root)
            self._database = Database(root / layout.CONTROL)
        except BaseException:
            os.close(self._lock)
            raise
        self.blobs = FolderBlobs(root)
        self.kv = DatabaseKeyValue(self._database)
        self.log = DatabaseLog(self._database)
        self._open = True

    async def aclose(self) -> None:
        """See the Protocol."""
        if self._open:
            self._open = False
            await self.blobs.aclose()
            await self._database.aclose()
            os.close(self._lock)
