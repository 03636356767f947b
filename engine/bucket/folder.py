"""The embedded bucket: a folder that one process opens exclusively."""

import os
from pathlib import Path

from engine.bucket import layout
from engine.bucket.blobs import FolderBlobs
from engine.bucket.database import Database, Execute
from engine.bucket.errors import TooLarge, disk_error
from engine.bucket.layout import lock
from engine.bucket.protocols import MAX_VALUE_BYTES, StaleRevision, VersionedValue, check_name
from engine.files.write_ahead_log import lost_commits

_END = "\U0010ffff"
"""Sorts after every character allowed in a key."""

_GET = "select value, revision from cell where key = ? and value is not null"
_SET = (
    "insert into cell values (?, ?, (select coalesce(max(revision), 0) + 1 from cell))"
    " on conflict do update set value = excluded.value, revision = excluded.revision returning revision"
)
_LIST = "select * from cell where key >= ? and key < ? and value is not null order by key"


class DatabaseKeyValue:
    """Implements `engine.bucket.protocols.KeyValue` as rows of the control database.

    A change's revision is the highest revision plus one. A removed key leaves a row without a value, so that
    its revision is never used again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> VersionedValue | None:
        """See the protocol."""
        check_name(key)
        rows = await self._database.read(lambda run: run(_GET, key))
        return VersionedValue(key, *rows[0]) if rows else None

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`."""
        check_name(key)
        if value is not None and len(value) > MAX_VALUE_BYTES:
            raise TooLarge(f"the value of {key}", len(value), MAX_VALUE_BYTES)

        def work(run: Execute) -> int | StaleRevision:
            rows = run(_GET, key)
            current = rows[0][1] if rows else None
            if current != revision:
                return StaleRevision(current)
            return int(run(_SET, key, value)[0][0])

        return await self._database.write(work)

    async def list(self, prefix: str) -> list[VersionedValue]:
        """See the protocol."""
        first = check_name(prefix) if prefix else ""
        rows = await self._database.read(lambda run: run(_LIST, first, first + _END))
        return [VersionedValue(*row) for row in rows]


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
