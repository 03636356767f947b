"""The local copy of replicated tables, as the thread that applies entries uses it."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from doors.tables.replication.entry import Assembler, Entry, chain_of
from doors.tables.replication.errors import CannotApply
from doors.tables.replication.place import (
    CREATE,
    Place,
    read_place,
    schema_version,
    sequences_of,
    store_place,
)
from doors.tables.sqlite.connections import Connection, Error, apsw, is_replica, open_replica
from engine.replication import LogMessage

BUSY_SECONDS = 0.05
"""Pause before the next try to replace a file that a transaction of this node is changing."""
OnEntry = Callable[[Place, Entry], None]


class Copy:
    """A database file at a place of the log. One thread at a time uses it."""

    def __init__(self, path: Path, log: str) -> None:
        """Open or create the file. Raises SQLite's errors."""
        self.path, self._log = path, log
        self._connection: Connection = open_replica(path)
        self._assembler = Assembler()
        self._image = path.with_name(path.name + ".image")
        self._in_image: Place | None = None
        try:
            self.place = self._read()
            if self.place is not None:
                self._assembler.restart(self.place.sequence)
        except BaseException:
            self._connection.close()
            raise

    def _read(self) -> Place | None:
        """Return the place, or None for a file that belongs to another log or to none."""
        if is_replica(self._connection):
            place = read_place(self._connection)
            return place if place.log == self._log else None
        if self._connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None:
            return None
        place = Place(self._log, 0, "", 0)
        self._store_new(place)
        return place

    def _store_new(self, place: Place) -> None:
        with self._connection:
            self._connection.execute(CREATE)
            store_place(self._connection, place)

    @property
    def after(self) -> int:
        """Sequence after which the next message is to be read."""
        assert self.place is not None
        return max(self.place.sequence, self._assembler.after)

    def apply(self, messages: Sequence[LogMessage], after: int, on_entry: OnEntry) -> None:
        """Apply the messages after a sequence; call `on_entry` for each applied entry.

        Raises `CannotApply`, and SQLite's errors.
        """
        if after > self._assembler.after:  # This node wrote the entries up to there.
            self._assembler.restart(after)
        for message in messages:
            content = self._assembler.add(message)
            if content is not None:
                self._apply_entry(message.sequence, content, on_entry)

    def _apply_entry(self, sequence: int, content: bytes, on_entry: OnEntry) -> None:
        entry = Entry.decode(content)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            place = self._in_image or read_place(connection)
            if sequence <= place.sequence:  # A transaction of this node.
                self.place = place
                return
            if entry.previous != place.chain:
                raise CannotApply(f"the entry {sequence} follows another one than {place.sequence}")
            if entry.kind == "rows":
                self._apply_rows(place, entry, sequence)
            place = place._replace(sequence=sequence, chain=chain_of(content))
            if entry.kind != "image":
                store_place(connection, place)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if entry.kind == "image":
            place = self._add_to_image(place, entry)
        self.place = place
        on_entry(place, entry)

    def _apply_rows(self, place: Place, entry: Entry, sequence: int) -> None:
        connection = self._connection
        found = schema_version(connection) + place.schema_shift
        if found != entry.schema:
            raise CannotApply(f"the entry {sequence} needs schema version {entry.schema}, not {found}")
        # An applied change of a key is an insertion, which may raise a sequence.
        expected = {**sequences_of(connection), **entry.sequences}
        try:
            for part in entry.parts:
                if isinstance(part, str):
                    connection.execute(part)
                else:
                    apsw.Changeset.apply(part, connection, conflict=_refuse)
            applied = sequences_of(connection)
            for name in expected.keys() | applied.keys():
                if (value := expected.get(name)) != applied.get(name):
                    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                    if value is not None:
                        connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, value))
        except (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.NoMemError):
            raise
        except Error as error:
            raise CannotApply(f"the entry {sequence} cannot be applied: {error}") from error

    def _add_to_image(self, place: Place, entry: Entry) -> Place:
        """Add a piece; after the last one, replace the content of the file by the image."""
        piece = entry.parts[0]
        assert isinstance(piece, bytes)
        with self._image.open("ab" if self._in_image else "wb") as file:
            file.write(piece)
        self._in_image = place
        if not entry.complete:
            return place
        with closing(Connection(str(self._image))) as image:
            self._replace_by(image)
        self._image.unlink()
        self._store_new(place)
        place = place._replace(schema_shift=entry.schema - schema_version(self._connection))
        with self._connection:
            store_place(self._connection, place)
        self._in_image = None
        return place

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
        place = other.place
        assert place is not None
        version = schema_version(other._connection) + place.schema_shift
        self._replace_by(other._connection)
        place = place._replace(schema_shift=version - schema_version(self._connection))
        with self._connection:
            store_place(self._connection, place)
        self.place = place
        self._assembler.restart(place.sequence)

    def save_aside(self, path: Path) -> None:
        """Copy the file, as far as it is readable. Raises SQLite's errors."""
        self._connection.execute("VACUUM INTO ?", (str(path),))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _refuse(_reason: int, _change: Any) -> int:
    return int(apsw.SQLITE_CHANGESET_ABORT)
