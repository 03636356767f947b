"""The embedded bucket: a folder that one process opens exclusively."""

import os
from pathlib import Path

from engine.bucket import layout
from engine.bucket.blobs import FolderBlobs
from engine.bucket.database import Database
from engine.bucket.errors import disk_error
from engine.bucket.kv import DatabaseKeyValue
from engine.bucket.layout import lock
from engine.files.write_ahead_log import lost_commits


class FolderBucket:
    """Implements `engine.bucket.protocols.Bucket`."""

    def __init__(self, root: Path, opened_by: str = "svc") -> None:
        """Open a bucket, or create one in a missing or empty folder. Blocks for milliseconds.

        `opened_by` is shown to other processes that try to open it. Raises `BucketInUse` and `BucketError`.
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
            self.lost_commits = lost_commits(root / layout.CONTROL)
            """Transactions that a damaged write-ahead log has lost."""
            self._database = Database(root / layout.CONTROL)
        except BaseException:
            os.close(self._lock)
            raise
        self.blobs = FolderBlobs(root)
        self.kv = DatabaseKeyValue(self._database)
        self._open = True

    async def aclose(self) -> None:
        """See the protocol."""
        if self._open:
            self._open = False
            await self.blobs.aclose()
            await self._database.aclose()
            os.close(self._lock)
