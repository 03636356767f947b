"""The journal of one machine: a segment that stays open, and positions that are read from the file."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors.tables.replication import journal
from doors.tables.replication.copy import read_log_position, schema_version
from doors.tables.replication.entry import Entry, chain_of
from doors.tables.replication.journal import FOLDER, read_frames, read_parts, segments
from doors.tables.sqlite.connections import Connection, apsw, close_owner, open_owner


class FailingLog(apsw.VFSFile):
    """A file of SQLite whose disk is full if it is a write-ahead log."""

    fails = False

    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._is_log = path.endswith("-wal")

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.fails and self._is_log:
            raise apsw.FullError
        super().xWrite(data, offset)


class FailingDisk(apsw.VFS):
    """The file system `failing`."""

    def xOpen(self, name: Any, flags: list[int]) -> FailingLog:
        return FailingLog(name, flags)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tables" / "tables.db"
    path.parent.mkdir()
    return path


@pytest.fixture
def first(path: Path) -> Iterator[Connection]:
    connection = open_owner(path)
    connection.execute("create table notes (id integer primary key, text text)")
    yield connection
    close_owner(connection)


def write(connection: Connection, text: str) -> None:
    connection.execute("begin immediate")
    connection.execute("insert into notes (text) values (?)", (text,))
    connection.execute("commit")


def entries(path: Path, connection: Connection) -> list[Entry]:
    """Return the entries of the journal, whose sequences and hashes are continuous."""
    position = read_log_position(connection)
    stored = [
        each
        for segment in segments(path.parent / FOLDER / position.log)
        for each in read_frames(segment.read_bytes())
    ]
    assert [each.sequence for each in stored] == list(range(1, position.sequence + 1))
    decoded = [Entry.decode(each.content) for each in stored]
    chains = [chain_of(each.content) for each in stored]
    assert [each.previous for each in decoded[1:]] == chains[:-1]
    assert position.chain == chains[-1]
    return decoded


def test_connections_that_write_in_turn_have_one_journal(path: Path, first: Connection) -> None:
    second = open_owner(path)
    for number in range(10):
        write(second if number % 3 else first, str(number))
    close_owner(second)
    assert len(entries(path, first)) == 10


def test_parts_are_the_entries_between_any_two_of_all_segments(
    path: Path, first: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 600)
    for number in range(12):
        write(first, "x" * 20 * number)
    folder = path.parent / FOLDER / read_log_position(first).log
    contents = [segment.read_bytes() for segment in segments(folder)]
    frames = [each.frame() for content in contents for each in read_frames(content)]
    assert len(contents) > 2
    assert len(frames) == 12
    for after in range(12):
        for last in range(after, 13):
            parts = [*read_parts(folder, after, last)]
            assert b"".join(each.frames for each in parts) == b"".join(frames[after:last])
            for part in parts:
                rest = [*read_parts(folder, part.last, 12, part.end)]
                assert b"".join(each.frames for each in rest) == b"".join(frames[part.last :])
    assert [each.gaps for each in read_parts(folder, 0, 12)][:2] == [1, 0]
    damaged = segments(folder)[1]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    last = max(each.sequence for each in read_frames(bytes(content)))
    assert [*read_parts(folder, 0, 12)][-1].last == last < 12


def test_entry_after_a_schema_change_of_another_connection_has_its_version(
    path: Path, first: Connection
) -> None:
    write(first, "a")
    second = open_owner(path)
    second.execute("begin")
    second.execute("create table others (id integer primary key)")
    second.execute("commit")
    close_owner(second)
    write(first, "b")
    assert entries(path, first)[-1].schema == schema_version(first)


def test_entry_after_a_schema_change_that_was_rolled_back_has_the_version_before(
    path: Path, first: Connection
) -> None:
    write(first, "a")
    first.execute("begin")
    first.execute("create table others (id integer primary key)")
    first.execute("insert into others values (1)")
    first.execute("rollback")
    write(first, "b")
    assert [each.schema for each in entries(path, first)] == [schema_version(first)] * 2


def test_write_after_the_journal_was_removed_begins_another(path: Path, first: Connection) -> None:
    write(first, "a")
    before = read_log_position(first)
    shutil.rmtree(path.parent / FOLDER)
    write(first, "b")
    write(first, "c")
    assert read_log_position(first).log != before.log
    assert len(entries(path, first)) == 2


@pytest.mark.parametrize("segment_bytes", [journal.SEGMENT_BYTES, 0])
def test_transaction_that_could_not_be_committed_does_not_displace_the_next_ones(
    path: Path, first: Connection, monkeypatch: pytest.MonkeyPatch, segment_bytes: int
) -> None:
    disk = FailingDisk("failing", "")
    second = open_owner(path, "failing")
    write(second, "1")
    write(first, "2")
    monkeypatch.setattr(journal, "SEGMENT_BYTES", segment_bytes)
    monkeypatch.setattr(FailingLog, "fails", True)
    with pytest.raises(apsw.FullError):
        write(second, "not committed" * 100)
    monkeypatch.undo()
    for text in ("3", "4"):
        write(first, text)
        write(second, text)
    position = read_log_position(first)
    close_owner(second)
    disk.unregister()
    if segment_bytes:
        assert len(entries(path, first)) == position.sequence == 6
    else:  # That transaction began a segment, so the next one by `second` begins a journal.
        assert len(entries(path, first)) == position.sequence == 3


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc of Linux")
def test_connection_that_closes_leaves_no_segment_open(path: Path) -> None:
    connection = open_owner(path)
    connection.execute("create table notes (id integer primary key, text text)")
    write(connection, "a")

    def opened() -> list[str]:
        links = list(Path("/proc/self/fd").iterdir())
        return [str(each.readlink()) for each in links if each.is_symlink()]

    assert [each for each in opened() if f"/{FOLDER}/" in each and str(path.parent) in each]
    close_owner(connection)
    assert not [each for each in opened() if str(path.parent) in each]
