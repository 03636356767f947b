"""The journal of a project's tables on one machine: their transactions as entries in files.

A connection appends an entry before it commits, while it has the write lock of SQLite. The database has the
position of its last entry. So entries after that are those of a transaction that was not committed, and the
next one cuts them off. Where a journal lacks entries, as after a power failure or after writes without a
journal, a new one begins with another id: it is of use from the next snapshot of the database on.

A journal is a folder of segments, `<id>/<first sequence>`, with a frame for each entry, which backups store
as they are. A segment has the entries of a day at most, and up to 16 MiB. Old ones are removed.
"""

import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from doors.tables.replication.copy import CLOSED, CREATE, LogPosition, store_log_position
from doors.tables.replication.entry import GAP, HEAD_BYTES, Assembler, chain_of
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.recorder import Recorder
from doors.tables.sqlite.connections import DATA_FOLDER, Connection, is_replica, open_replica
from engine.replication import LogMessage

FOLDER = "journal"
"""Name of the folder beside the database."""
JOURNAL = f"{DATA_FOLDER}/{FOLDER}"
"""Path of the folder in a project's data."""
DAYS = 7
"""Default of the days that journals have."""
SEGMENT_BYTES = 16 << 20
MAX_BYTES = 1 << 30
"""Maximum size of the journals of a database: the oldest segments are removed first."""
DAY_NS = 24 * 3600 * 10**9
_FRAME = struct.Struct(">4sIIQQ")
_MAGIC = b"svcj"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry, and when it was appended (Unix time in ns)."""

    sequence: int
    time_ns: int
    content: bytes

    def frame(self) -> bytes:
        """Return the stored form."""
        size, checksum = len(self.content), zlib.crc32(self.content)
        return _FRAME.pack(_MAGIC, size, checksum, self.sequence, self.time_ns) + self.content


def logged(messages: Iterable[LogMessage], assembler: Assembler) -> Iterator[JournalEntry]:
    """Yield the entries that end with messages of the log of a fleet."""
    for each in messages:
        if (content := assembler.add(each)) is not None:
            since_ns = int(datetime.fromisoformat(each.time).timestamp() * 1e6) * 1000
            yield JournalEntry(each.sequence, since_ns, content)


class Journal:
    """Appends the transactions of one connection to the journal of its database."""

    node = ""
    refuses = False
    writes = True

    def __init__(self, path: Path) -> None:
        self._folder = path.parent / FOLDER
        self._segment, self._file = self._folder, -1
        """The last segment, and its descriptor. It stays open between transactions."""
        self._position = CLOSED
        """That of the entry at the end of the segment, whose size is `_size`."""
        self._size = 0
        self._begun_ns = 0
        """When the first entry of the segment was appended."""

    def record(self, connection: Connection) -> None:
        """Append the transactions of a connection from now on. Raises SQLite's errors."""
        if not is_replica(connection):
            _begin(connection)
        Recorder(connection, self)

    def on_written(self, log_position: LogPosition | None) -> None:
        """Do nothing: the position in the database says what was committed."""

    def publish(self, content: bytes, log_position: LogPosition) -> LogPosition:
        """Append an entry, and return its position. Raises `ReplicationError` if that fails."""
        try:
            # A journal may be removed. After `stat`, each write would cost SQLite's commit 30 µs.
            if log_position[:3] != self._position[:3] or not os.access(self._segment, os.F_OK):
                log_position = self._find(log_position)
            return self._append(content, log_position)
        except OSError as error:
            self._position = CLOSED
            raise ReplicationError(
                "storage",
                f"the journal of the tables cannot be written: {error.strerror}",
                "Free space on the disk of the service, and check the permissions of its folder.",
            ) from error

    def _append(self, content: bytes, log_position: LogPosition) -> LogPosition:
        after, now_ns = log_position.after(log_position.sequence + 1, content), time.time_ns()
        if self._file < 0 or self._size > SEGMENT_BYTES or now_ns - self._begun_ns > DAY_NS:
            trim(self._folder, MAX_BYTES)
            segment = self._folder / after.log / f"{after.sequence:016}"
            segment.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open(segment, os.O_CREAT | os.O_TRUNC)
            self._begun_ns = now_ns
        frame, written = JournalEntry(after.sequence, now_ns, content).frame(), 0
        while written < len(frame):
            written += os.pwrite(self._file, frame[written:], self._size + written)
        self._size += written
        self._position = after
        return after

    def _open(self, segment: Path, flags: int = 0) -> None:
        self.close()
        self._segment, self._file = segment, os.open(segment, os.O_WRONLY | flags, 0o600)

    def close(self) -> None:
        """Close the segment."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = -1, 0

    def _find(self, log_position: LogPosition) -> LogPosition:
        """Find the end of the journal at a position. Without it, begin a journal; return its position."""
        self.close()
        folder = self._folder / log_position.log
        last, chain = 0, log_position.chain
        for segment in reversed(segments(folder)):
            if int(segment.name) > log_position.sequence:
                segment.unlink()
                continue
            self._open(segment)
            for part in read_parts(folder, int(segment.name) - 1, log_position.sequence):
                last, self._begun_ns, self._size = part.last, part.time_ns, part.end
                chain = chain_of([*read_frames(part.frames)][-1].content)
            os.truncate(self._file, self._size)
            break
        if (last, chain) == (log_position.sequence, log_position.chain):
            return log_position
        self.close()
        return log_position._replace(log=secrets.token_hex(8), sequence=0)


def _begin(connection: Connection) -> LogPosition:
    log_position = LogPosition(secrets.token_hex(8), 0, "", 0, 0)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(CREATE)
    store_log_position(connection, log_position)
    connection.execute("COMMIT")
    return log_position


def begin_again(path: Path) -> LogPosition:
    """Begin another journal of a database, and return its position. Raises SQLite's errors."""
    with closing(open_replica(path)) as connection:
        return _begin(connection)


def segments(folder: Path) -> list[Path]:
    """Return the segments of a journal, in order."""
    return sorted(folder.glob("[0-9]*"))


def read_frames(content: bytes) -> Iterator[JournalEntry]:
    """Yield the entries of frames, up to the first incomplete or damaged one."""
    for sequence, time_ns, begin, end in _frames(content):
        yield JournalEntry(sequence, time_ns, content[begin:end])


def _frames(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the sequence and time of entries, and where each begins and ends."""
    end = 0
    while (begin := end + _FRAME.size) <= len(content):
        magic, size, checksum, sequence, time_ns = _FRAME.unpack_from(content, end)
        end = begin + size
        if magic != _MAGIC or end > len(content) or zlib.crc32(memoryview(content)[begin:end]) != checksum:
            return
        yield sequence, time_ns, begin, end


class Part(NamedTuple):
    """Consecutive entries as a segment has them, when the first was appended, and where the last one ends."""

    first: int
    last: int
    time_ns: int
    gaps: int
    frames: bytes
    end: int


def read_parts(journal: Path, after: int, last: int, end: int = 0) -> Iterator[Part]:
    """Yield the entries after one up to another, until one is damaged or missing. Raises OSError.

    `end` is where the entry `after` ends in its segment, 0 if unknown.
    """
    files = segments(journal)
    for segment, following in zip(files, [*files[1:], None], strict=False):
        if following is not None and int(following.name) <= after + 1:
            continue
        with segment.open("rb") as file:
            place = file.seek(end if int(segment.name) <= after else 0)
            content = file.read()
        first, since_ns, gaps, start, stop = after + 1, 0, 0, 0, 0
        for sequence, time_ns, begin, frame_end in _frames(content):
            if sequence <= after:
                start = frame_end
            elif sequence > min(after + 1, last):
                break
            else:
                since_ns, gaps = since_ns or time_ns, gaps + (GAP in content[begin : begin + HEAD_BYTES])
                after, stop = sequence, frame_end
        if after >= first:
            yield Part(first, after, since_ns, gaps, content[start:stop], place + stop)


def trim(folder: Path, max_bytes: int, before_ns: int = 0) -> None:
    """Remove the oldest segments of all journals beyond a size, and those last written before a time.

    The last segment of all stays. Raises OSError.
    """
    found = sorted(((each.stat(), each) for each in folder.glob("*/*")), key=lambda each: each[0].st_mtime_ns)
    size = sum(stat.st_size for stat, _ in found)
    for stat, segment in found[:-1]:
        if size > max_bytes or stat.st_mtime_ns < before_ns:
            segment.unlink(missing_ok=True)
            with suppress(OSError):
                segment.parent.rmdir()
        size -= stat.st_size


def trim_days(folders: Iterable[Path], days: int = DAYS) -> None:
    """Remove segments that were last written before some days. What cannot be removed stays."""
    for folder in folders:
        with suppress(OSError):
            trim(folder, MAX_BYTES, time.time_ns() - days * DAY_NS)
