"""Key-value pairs of the embedded bucket, as rows of the control database.

A change's revision is the highest revision plus one. A removed key leaves a row without a value, so that its
revision is never used again.
"""

from engine.bucket.database import Database, Execute
from engine.bucket.errors import TooLarge
from engine.bucket.protocols import MAX_VALUE_BYTES, StaleRevision, VersionedValue, check_name

_END = "\U0010ffff"
"""Sorts after every character allowed in a key."""

_GET = "select value, revision from cell where key = ? and value is not null"
_SET = (
    "insert into cell values (?, ?, (select coalesce(max(revision), 0) + 1 from cell))"
    " on conflict do update set value = excluded.value, revision = excluded.revision returning revision"
)
_LIST = "select * from cell where key >= ? and key < ? and value is not null order by key"


class DatabaseKeyValue:
    """Implements `engine.bucket.protocols.KeyValue`."""

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
