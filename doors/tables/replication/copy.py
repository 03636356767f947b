"""The local copy of replicated tables, as a thread uses it: its position in the log, digest and snapshots.

The position is a row that each transaction of the log updates.
"""

import asyncio
import hashlib
import marshal
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from doors.tables.replication.entry import MESSAGE_BYTES, Assembler, Entry, chain_of, messages_of
from doors.tables.replication.errors import STORAGE_ERRORS, CannotApply, ReplicationError
from doors.tables.sqlite.connections import REPLICA_TABLE, Connection, Error, apsw, is_replica, open_replica
from doors.tables.sqlite.errors import SqlError, quoted, rows
from engine.cancellation import finish
from engine.files.database_files import copy_database, remove_database
from engine.files.temporary import temporary_folder
from engine.replication import LogMessage, LogSnapshot, ReplicatedLog

BUSY_SECONDS = 0.05
"""Pause before the next try to replace a file that a transaction of this node is changing."""
CHUNK_ROWS = 500
_AS_BYTES = "typeof({0}), iif(typeof({0}) = 'text', CAST({0} AS BLOB), {0})"
"""A column that may have text that is not Unicode."""
_FORMAT = 2
"""Version of `marshal` whose bytes depend on the values alone."""
STILL_SECONDS = 60.0
"""How long a snapshot waits for connections that read older rows."""
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
ENTRY_BYTES = 4096
"""Size of an entry in the log besides its content: what it costs to store and apply it."""
CREATE = f"""CREATE TABLE IF NOT EXISTS {REPLICA_TABLE} (
    one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, sequence INTEGER NOT NULL,
    chain TEXT NOT NULL, schema_shift INTEGER NOT NULL, logged INTEGER NOT NULL,
    lease TEXT NOT NULL DEFAULT ''
)"""


class LogPosition(NamedTuple):
    """The last entry of the log `log` that the file contains, and its hash.

    `schema_shift` is the log's schema version minus that of the file. `logged` is the size of the log up to
    there, which is the same on all nodes. `lease` is that of the node that writes to the tables after this
    entry, empty for none.
    """

    log: str
    sequence: int
    chain: str
    schema_shift: int
    logged: int
    lease: str = ""

    def after(self, sequence: int, content: bytes, lease: str | None = None) -> "LogPosition":
        """Return the position after an entry, which gives the tables to a `lease` unless that is None."""
        return self._replace(
            sequence=sequence,
            chain=chain_of(content),
            logged=self.logged + len(content) + ENTRY_BYTES,
            lease=self.lease if lease is None else lease,
        )


CLOSED = LogPosition("", -1, "", 0, 0)
"""The position of a file that is not open, or of no entry."""


def read_log_position(connection: Connection) -> LogPosition:
    """Return the position of a file that has one. Raises SQLite's errors."""
    sql = f"SELECT log, sequence, chain, schema_shift, logged, lease FROM {REPLICA_TABLE}"
    row = connection.execute(sql).fetchone()
    return LogPosition(*row) if row else LogPosition("", 0, "", 0, 0)


def store_log_position(connection: Connection, log_position: LogPosition) -> None:
    """Store the position in the current transaction. Raises SQLite's errors."""
    connection.execute(f"INSERT OR REPLACE INTO {REPLICA_TABLE} VALUES (1, ?, ?, ?, ?, ?, ?)", log_position)


def schema_version(connection: Connection) -> int:
    return int(connection.execute("PRAGMA schema_version").get)  # Unlike `pragma`, this is compiled once.


def sequences_of(connection: Connection) -> Mapping[str, int]:
    """Return the last keys of tables with AUTOINCREMENT, which sessions do not record."""
    try:
        return dict(rows(connection, "SELECT name, seq FROM sqlite_sequence"))
    except SqlError:  # No table has AUTOINCREMENT.
        return {}


class Content:
    """The content of a file now, whatever is applied later. One thread at a time uses it."""

    def __init__(self, path: Path) -> None:
        """Open a transaction. Raises SQLite's errors."""
        self._connection = open_replica(path)
        self.close = self._connection.close
        self._connection.execute("BEGIN")
        read_log_position(self._connection)

    def digest(self) -> str:
        """Return the digest, empty for a damaged file. Raises `InterruptError`."""
        try:
            return digest_of(self._connection)
        except apsw.InterruptError:
            raise
        except (Error, UnicodeDecodeError):
            return ""

    def interrupt(self) -> None:
        """End `digest` early, on another thread."""
        with suppress(apsw.ConnectionClosedError):
            self._connection.interrupt()


OnEntry = Callable[[LogPosition, Entry, Content | None], None]
"""Gets the position after an applied entry, and the content there if copies are compared at it."""


class Copy:
    """A database file at a position of the log. One thread at a time uses it."""

    def __init__(self, path: Path, log: str, snapshot: LogSnapshot | None = None) -> None:
        """Open the file, which may be that of a snapshot, or create it. Raises SQLite's errors.

        Raises `CannotApply` for the snapshot of another log.
        """
        self.path, self._log = path, log
        self._connection: Connection = open_replica(path)
        self.close = self._connection.close
        self.set_progress_handler = self._connection.set_progress_handler
        self._assembler = Assembler()
        self._image = path.with_name(path.name + ".image")
        self._in_image: LogPosition | None = None
        self._image_bytes = 0
        try:
            self.log_position = self._read()
            if snapshot is not None:
                if self.log_position is None or self.log_position.sequence != snapshot.sequence:
                    raise CannotApply(f"the snapshot at {snapshot.sequence} is not one of this log")
                self.log_position = self._store_with_schema(self.log_position, snapshot.schema)
            if self.log_position is not None:
                self._assembler.restart(self.log_position.sequence)
        except BaseException:
            self._connection.close()
            raise

    def _read(self) -> LogPosition | None:
        """Return the position, or None for a file that belongs to another log or to none."""
        if is_replica(self._connection):
            columns = self._connection.execute("SELECT name FROM pragma_table_info(?)", (REPLICA_TABLE,)).get
            if "lease" not in columns:  # An earlier svc wrote the file.
                with self._connection:
                    self._connection.execute(
                        f"ALTER TABLE {REPLICA_TABLE} ADD COLUMN lease TEXT NOT NULL DEFAULT '';"
                        f"UPDATE {REPLICA_TABLE} SET schema_shift = schema_shift - 1"
                    )
            log_position = read_log_position(self._connection)
            return log_position if log_position.log == self._log else None
        if self._connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None:
            return None
        log_position = LogPosition(self._log, 0, "", 0, 0)
        with self._connection:
            self._connection.execute(CREATE)
            store_log_position(self._connection, log_position)
        return log_position

    def _store_with_schema(self, log_position: LogPosition, schema: int) -> LogPosition:
        """Store and return the position of a new content, at which the log has a schema version."""
        log_position = log_position._replace(schema_shift=schema - schema_version(self._connection))
        with self._connection:
            store_log_position(self._connection, log_position)
        return log_position

    @property
    def after(self) -> int:
        """Sequence after which the next message is to be read."""
        assert self.log_position is not None
        return max(self.log_position.sequence, self._assembler.after)

    def apply(self, messages: Sequence[LogMessage], after: int, on_entry: OnEntry) -> None:
        """Apply the messages after a sequence; call `on_entry` for each applied entry.

        Raises `CannotApply`, and SQLite's errors.
        """
        if after > self._assembler.after:  # This node wrote the entries up to there.
            self._assembler.restart(after)
        try:
            for message in messages:
                content = self._assembler.add(message)
                if content is not None:
                    self._apply_entry(message.sequence, content, on_entry)
        except BaseException:  # The next call gets the messages after the last applied entry again.
            assert self.log_position is not None
            self._assembler.restart(self.log_position.sequence)
            raise

    def _apply_entry(self, sequence: int, content: bytes, on_entry: OnEntry) -> None:
        entry = Entry.decode(content)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            log_position = self._in_image or read_log_position(connection)
            if sequence <= log_position.sequence:  # A transaction of this node.
                self.log_position = log_position
                return
            if entry.previous != log_position.chain:
                raise CannotApply(f"the entry {sequence} follows another one than {log_position.sequence}")
            if entry.kind == "rows":
                self._apply_rows(log_position, entry, sequence)
            log_position = log_position.after(sequence, content, entry.lease)
            if entry.kind != "image":
                store_log_position(connection, log_position)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if entry.kind == "image":
            log_position = self._add_to_image(log_position, entry)
        self.log_position = log_position
        on_entry(log_position, entry, Content(self.path) if entry.check else None)

    def _apply_rows(self, log_position: LogPosition, entry: Entry, sequence: int) -> None:
        connection = self._connection
        actual = schema_version(connection) + log_position.schema_shift
        if actual != entry.schema:
            raise CannotApply(f"the entry {sequence} needs schema version {entry.schema}, not {actual}")
        # An applied change of a key is an insertion, which may raise a sequence.
        expected = {**sequences_of(connection), **entry.sequences}
        try:
            for part in entry.parts:
                if isinstance(part, str):
                    connection.execute(part)
                else:
                    apsw.Changeset.apply(part, connection)
            applied = sequences_of(connection)
            for name in expected.keys() | applied.keys():
                if (value := expected.get(name)) != applied.get(name):
                    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                    if value is not None:
                        connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, value))
        except STORAGE_ERRORS:
            raise
        except Error as error:
            raise CannotApply(f"the entry {sequence} cannot be applied: {error}") from error

    def _add_to_image(self, log_position: LogPosition, entry: Entry) -> LogPosition:
        """Add a piece; after the last one, replace the content of the file by the image."""
        piece = entry.parts[0]
        assert isinstance(piece, bytes)
        begin = self._image_bytes if self._in_image is not None else 0
        with self._image.open("r+b" if begin else "wb") as file:
            file.seek(begin)
            file.write(piece)
            file.truncate()
        if entry.complete:
            with closing(Connection(str(self._image))) as image:
                self._replace_by(image)
            with self._connection:
                self._connection.execute(CREATE)
            log_position = self._store_with_schema(log_position, entry.schema)
            self._image.unlink()
        # Only now, so that a piece that could not be added is added again.
        self._in_image, self._image_bytes = None if entry.complete else log_position, begin + len(piece)
        return log_position

    def _replace_by(self, source: Connection) -> None:
        """Replace the content of the file in one transaction, while others read it."""
        with self._connection.backup("main", source, "main") as backup:
            while not backup.done:
                try:
                    backup.step(-1)
                except (apsw.BusyError, apsw.LockedError):
                    time.sleep(BUSY_SECONDS)

    def become(self, other: "Copy") -> None:
        """Replace the content of the file by that of another copy. Raises SQLite's errors."""
        log_position = other.log_position
        assert log_position is not None
        version = schema_version(other._connection) + log_position.schema_shift
        self._replace_by(other._connection)
        self.log_position = self._store_with_schema(log_position, version)
        self._assembler.restart(log_position.sequence)

    def save_aside(self, path: Path) -> None:
        """Copy the file, also a damaged one. Raises OSError and SQLite's errors."""
        try:
            self._connection.execute("VACUUM INTO ?", (str(path),))
        except (apsw.CorruptError, apsw.NotADBError):
            copy_database(self.path, path)


def digest_of(connection: Connection, only: str = "") -> str:
    """Return the hash of schema and rows that a transaction sees; empty if SQLite finds an error in the file.

    It is equal on all nodes at an entry of the log. `only` limits the rows to those of a table. Rests as
    long as it works, because it holds the interpreter's lock. Raises SQLite's errors.
    """
    if rows(connection, "PRAGMA integrity_check(1)") != [("ok",)]:
        return ""
    digest = hashlib.sha256()
    schema = (
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> ? AND name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' ORDER BY type, name"
    )
    definitions = rows(connection, schema, REPLICA_TABLE)
    digest.update(marshal.dumps(definitions, _FORMAT))
    tables = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')"
    for table, without_rowid in sorted(rows(connection, tables)):
        if table == REPLICA_TABLE or table.startswith("sqlite_") or (only and table != only):
            continue
        key = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
        columns = [quoted(name) for (name,) in rows(connection, key, table)]
        stored = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 2"  # Others are computed by a query.
        names = [quoted(name) for (name,) in rows(connection, stored, table)]
        rowid = [] if columns or without_rowid else ["rowid"]
        order = f"FROM {quoted(table)} ORDER BY {', '.join(columns) or 'rowid'}"
        before = digest.copy()
        try:
            _add_rows(digest, connection, f"SELECT {', '.join(rowid + names)} {order}")
        except UnicodeDecodeError:
            digest = before
            values = [*rowid, *map(_AS_BYTES.format, names)]
            _add_rows(digest, connection, f"SELECT {', '.join(values)} {order}")
    return digest.hexdigest()


def _add_rows(digest: Any, connection: Connection, sql: str) -> None:
    cursor = connection.execute(sql)
    began = time.monotonic()
    while chunk := list(islice(cursor, CHUNK_ROWS)):
        digest.update(marshal.dumps(chunk, _FORMAT))
        time.sleep(time.monotonic() - began)
        began = time.monotonic()


@contextmanager
def still_file(path: Path) -> Iterator[tuple[LogPosition, int, Iterator[bytes]]]:
    """Give the position and the schema version of a database, and the bytes of its file, in pieces.

    The file does not change meanwhile: later commits stay in the write-ahead log. So no copy is written, for
    which commits of others would wait. Raises SQLite's errors.
    """
    with closing(open_replica(path)) as reader, closing(open_replica(path)) as writer:
        writer.set_busy_timeout(int(BUSY_SECONDS * 1000))
        end = time.monotonic() + STILL_SECONDS
        while True:
            reader.execute(_CHECKPOINT)
            with suppress(apsw.BusyError):  # Without the lock, a commit may come between; that is noticed.
                writer.execute("BEGIN IMMEDIATE")
            before = reader.pragma("data_version")
            busy, logged, copied = reader.execute(_CHECKPOINT).fetchall()[0]
            reader.execute("BEGIN")
            version, log_position = schema_version(reader), read_log_position(reader)
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if not busy and logged == copied and reader.pragma("data_version") == before:
                break
            reader.execute("ROLLBACK")
            if time.monotonic() > end:
                raise apsw.BusyError("another connection reads the tables for too long")
            time.sleep(BUSY_SECONDS)
        # SQLite opens the file: another descriptor that is closed would end the locks of this process on it.
        file = apsw.VFSFile(
            "", str(path.resolve()), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
        )
        try:
            size = file.xFileSize()
            pieces = (file.xRead(min(MESSAGE_BYTES, size - at), at) for at in range(0, size, MESSAGE_BYTES))
            yield log_position, version + log_position.schema_shift, pieces
        finally:
            file.xClose()


def write_stepwise(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file. Each piece is synced, because commits of others wait for what their disk has to write."""
    with target.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            os.fdatasync(file.fileno())


def save_snapshot(path: Path, target: Path) -> LogSnapshot:
    """Copy a database file as it is at a position. Raises SQLite's errors and OSError."""
    remove_database(target)
    with still_file(path) as (log_position, schema, pieces):
        write_stepwise(target, pieces)
    with target.open("rb") as content:
        return LogSnapshot(
            sequence=log_position.sequence,
            schema=schema,
            logged=log_position.logged,
            digest=hashlib.file_digest(content, "sha256").hexdigest(),
            size=content.tell(),
        )


async def seed(log: ReplicatedLog, path: Path) -> None:
    """Append the tables in a file to their empty log, and store the position in it. Raises `SvcError`.

    No other process uses the file. Without a fleet, the next one that writes removes the position.
    """
    name, log_position = path.parent.parent.name, LogPosition(log.id, 0, "", 0, 0)
    try:
        with closing(open_replica(path)) as connection, temporary_folder("svc-seed-", path.parent) as folder:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(CREATE)
            image, schema = folder / path.name, schema_version(connection)
            await finish(asyncio.ensure_future(asyncio.to_thread(save, path, image)))
            with image.open("rb") as file:
                size = image.stat().st_size
                while piece := file.read(MESSAGE_BYTES):
                    entry = Entry(
                        kind="image",
                        previous=log_position.chain,
                        node=log.node,
                        schema=schema,
                        parts=(piece,),
                        complete=file.tell() == size,
                    )
                    content = await asyncio.to_thread(entry.encode)
                    stored = await log.append(name, messages_of(content), log_position.sequence)
                    if stored is None:
                        raise ReplicationError("busy", f"the tables of {name} are in the fleet already")
                    log_position = log_position.after(stored, content)
            store_log_position(connection, log_position)
            connection.execute("COMMIT")
    except (Error, OSError) as error:
        raise ReplicationError("storage", f"the tables of {name} cannot be copied: {error}") from error


def save(path: Path, target: Path) -> None:
    """Copy a database file, without what it has deleted. Raises SQLite's errors."""
    with closing(open_replica(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))
