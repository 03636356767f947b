"""Append-only logs of the embedded bucket, as rows of the control database."""

from collections.abc import AsyncGenerator

from engine.bucket.database import Database, Execute
from engine.bucket.errors import BucketClosed, TooLarge
from engine.bucket.protocols import MAX_VALUE_BYTES, BucketLogEntry, StaleRevision, check_name

PAGE_ROWS = 256
_LAST = "select last from log where name = ?"
_RAISE = "insert into log values (?, ?) on conflict do update set last = excluded.last"
_ADD = "insert into entry values (?, ?, ?)"
_READ = "select seq, content from entry where name = ? and seq > ? order by seq limit ?"
_TRIM = "delete from entry where name = ? and seq <= ?"


class DatabaseLog:
    """Implements `engine.bucket.protocols.Log`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, name: str, content: bytes, expect: int | None = None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`."""
        check_name(name)
        if len(content) > MAX_VALUE_BYTES:
            raise TooLarge(f"an entry of {name}", len(content), MAX_VALUE_BYTES)

        def work(run: Execute) -> int | StaleRevision:
            last = _last(run, name)
            if expect is not None and expect != last:
                return StaleRevision(last)
            run(_RAISE, name, last + 1)
            run(_ADD, name, last + 1, content)
            return last + 1

        return await self._database.write(work, _topic(name))

    async def last(self, name: str) -> int:
        """See the protocol."""
        check_name(name)
        return await self._database.read(lambda run: _last(run, name))

    async def read(self, name: str, after: int = 0, limit: int = 1000) -> list[BucketLogEntry]:
        """See the protocol."""
        check_name(name)
        rows = await self._database.read(lambda run: run(_READ, name, after, limit))
        return [BucketLogEntry(*row) for row in rows]

    async def follow(self, name: str, after: int = 0) -> AsyncGenerator[BucketLogEntry, None]:
        """See the protocol."""
        with self._database.subscribe(_topic(name)) as changed:
            while True:
                changed.clear()
                try:
                    entries = await self.read(name, after, PAGE_ROWS)
                except BucketClosed:
                    return
                for entry in entries:
                    yield entry
                    after = entry.seq
                if not entries:
                    await changed.wait()

    async def trim(self, name: str, upto: int) -> None:
        """See the protocol."""
        check_name(name)
        await self._database.write(lambda run: run(_TRIM, name, upto), _topic(name))


def _topic(name: str) -> str:
    return f"log {name}"


def _last(run: Execute, name: str) -> int:
    rows = run(_LAST, name)
    return int(rows[0][0]) if rows else 0
