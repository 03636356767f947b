"""Tables of a backup: journals, snapshots and entries, and their restore as of each moment."""

import asyncio
import hashlib
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from doors.tables.replication import recorder
from doors.tables.replication.copy import LogPosition, digest_of, read_log_position
from doors.tables.replication.journal import FOLDER, Journal, read_frames, segments
from doors.tables.sqlite.connections import Connection, Error, close_owner, open_owner, open_replica
from doors.tables.sqlite.errors import FullError
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Digest
from engine.deploy.deployment import RECORDS, DeploymentHistory
from engine.service.secrets import SecretsKey
from svc_tui.backup import shipper
from svc_tui.backup.restore import NOW_NS, restore, verify, verify_tables
from svc_tui.backup.shipper import Backup
from svc_tui.backup.store import (
    VERIFIED,
    BackupDamaged,
    BackupError,
    BackupStore,
    StoredObject,
    parse_blobs,
    parse_marks,
    parse_tables,
)
from tests.engine.deploy.packing import component_artifact, deployment

KEY = SecretsKey.create()


class Service:
    """The tables of one project, and a backup of them that the test runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "data" / "projects" / "shop" / "tables" / "tables.db"
        self.path.parent.mkdir(parents=True)
        self.restored = 0
        self.store = BackupStore(f"file://{root}/store", KEY, create=True)
        self.bucket = FolderBucket(root / "bucket")
        self.start()

    def start(self) -> None:
        """Begin the backup again, as after a restart of the service."""
        self.backup = Backup(self.store, self.root / "data", self.bucket, lambda *_: None)
        self.backup._begin()

    def write(self, *statements: str, path: Path | None = None) -> None:
        """Run a transaction on a new connection."""
        with self.connected(path) as connection:
            run(connection, *statements)

    @contextmanager
    def connected(self, path: Path | None = None) -> Iterator[Connection]:
        connection = open_owner(path or self.path)
        try:
            yield connection
        finally:
            close_owner(connection)

    def ship(self) -> None:
        asyncio.run(self.backup._ship(60))

    def restore(self, time_ns: int = NOW_NS) -> Path:
        self.restored += 1
        target = self.root / f"restored{self.restored}"
        result = asyncio.run(restore(self.store, KEY, target, time_ns))
        assert not any(each.problem for each in result.tables)
        return target / "projects" / "shop" / "tables" / "tables.db"

    async def add_blob(self, content: bytes) -> Digest:
        """Store a blob, and a value besides."""
        name = Digest(hashlib.sha256(content).hexdigest())

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        await self.bucket.blobs.upload(name, len(content), 0, chunks())
        await self.bucket.kv.cas(f"artifact/{name}", b"{}", None)
        return name

    def journal(self) -> list[Path]:
        return [each for folder in sorted((self.path.parent / FOLDER).iterdir()) for each in segments(folder)]


def run(connection: Connection, *statements: str) -> None:
    connection.execute("begin immediate")
    for statement in statements:
        connection.execute(statement)
    connection.execute("commit")


def digest(path: Path) -> str:
    with closing(open_replica(path)) as connection:
        found = digest_of(connection)
    assert found
    return found


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


STATEMENTS = (
    "insert into item (name) values ('{a}')",
    "insert into item (name) select name || '{a}' from item where id % 7 = {n}",
    "update item set name = '{a}' where id % 5 = {n}",
    "delete from item where id % 11 = {n}",
    "insert or replace into pair values ({n}, '{a}', {n}.5)",
    "insert into plain values ('{a}', {n})",
    "update plain set b = b + 1",
    "delete from item",
    "create table t{u} (id integer primary key autoincrement, a)",
    "insert into counted (a) values ('{a}')",
    "alter table item add column c{u} text default '{a}'",
    "create table s{u} as select * from item",
    "create index i{u} on item (name)",
    "create trigger g{u} after insert on pair begin insert into plain values (new.b, {n}); end",
    "insert into words values ('{a} {a}')",
)


def test_restore_equals_the_tables_at_every_moment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"GAP_SECONDS": 0, "MAX_PARTS": 6, "SNAPSHOT_BYTES": 3000}.items():
        monkeypatch.setattr(shipper, name, value)
    chosen = random.Random(7)
    service.write(
        "create table item (id integer primary key, name text)",
        "create table pair (a integer, b text, c real, primary key (a, b)) without rowid",
        "create table plain (a, b)",
        "create table counted (id integer primary key autoincrement, a)",
        "create virtual table words using fts5 (text)",
    )
    service.ship()
    moments = []
    for number in range(120):
        values = {"a": f"é{number}", "n": chosen.randrange(5), "u": number}
        statements = [
            each.format_map(values) for each in chosen.choices(STATEMENTS, k=chosen.randrange(1, 4))
        ]
        if len(set(statements)) == len(statements):
            service.write(*statements)
        if chosen.random() < 0.3:
            service.ship()
            moments.append((time.time_ns(), digest(service.path)))
        if chosen.random() < 0.1:
            service.start()
    service.ship()
    assert digest(service.restore()) == digest(service.path)
    for time_ns, expected in chosen.sample(moments, 12):
        assert digest(service.restore(time_ns)) == expected


def test_transaction_that_was_not_committed_is_cut_from_the_journal(service: Service) -> None:
    service.write("create table item (id integer primary key, name text)")
    with service.connected() as connection:
        run(connection, "insert into item values (1, 'first')")
        position = read_log_position(connection)
    journal = Journal(service.path)
    lost = journal.publish(b'{"never": "committed"}\n', position)
    assert lost.sequence == position.sequence + 1
    service.ship()
    service.write("insert into item values (2, 'second')")
    service.ship()
    entries = [each.sequence for segment in service.journal() for each in read_frames(segment.read_bytes())]
    assert entries == sorted(set(entries))
    assert digest(service.restore()) == digest(service.path)


@pytest.mark.parametrize("lost", ["all", "end", "middle"])
def test_journal_that_lacks_transactions_begins_again(service: Service, lost: str) -> None:
    service.write("create table item (id integer primary key, name text)")
    service.ship()
    for number in range(3):
        service.write(f"insert into item values ({number}, 'row')")
    [segment] = service.journal()
    content = segment.read_bytes()
    match lost:
        case "all":
            segment.unlink()
        case "end":
            segment.write_bytes(content[:-1])
        case "middle":
            segment.write_bytes(content[:-60] + bytes(1) + content[-59:])
    service.write("insert into item values (9, 'after')")
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_older_copy_of_the_file_is_stored_as_it_is(service: Service) -> None:
    service.write("create table item (id integer primary key, name text)")
    with closing(open_replica(service.path)) as connection:
        connection.execute("pragma journal_mode = delete")
    older = service.path.read_bytes()
    service.write("insert into item values (1, 'lost')", "insert into item values (2, 'lost')")
    service.ship()
    with closing(open_replica(service.path)) as connection:
        connection.execute("pragma journal_mode = delete")
    service.path.write_bytes(older)
    service.ship()
    service.write("insert into item values (1, 'after')")
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_older_copy_of_the_data_that_was_written_to_is_stored_as_it_is(service: Service) -> None:
    tables, copy = service.path.parent, service.root / "copy"
    service.write("create table item (id integer primary key, name text)")
    service.ship()
    service.write("insert into item values (1, 'one')")
    shutil.copytree(tables, copy)
    service.write("insert into item values (2, 'lost')")
    service.ship()
    shutil.rmtree(tables)
    copy.rename(tables)
    for number in (2, 3):  # Without a backup.
        service.write(f"insert into item values ({number}, 'after')")
    service.start()
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_journal_that_is_removed_in_use_begins_again(service: Service) -> None:
    journal = service.path.parent / FOLDER
    with service.connected() as connection:
        run(connection, "create table item (id integer primary key)")
        shutil.rmtree(journal)
        run(connection, "insert into item values (1)")
        service.ship()
        shutil.rmtree(journal)
        service.ship()
        run(connection, "insert into item values (2)")
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_damaged_tables_of_a_project_do_not_stop_the_backup_of_others(service: Service) -> None:
    other = service.path.parents[2] / "a-damaged" / "tables" / service.path.name
    other.parent.mkdir(parents=True)
    other.write_bytes(b"no database" * 1000)
    service.write("create table item (id integer primary key)")
    with pytest.raises(Error):
        service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_transaction_whose_commit_fails_is_an_error(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise FullError("database or disk is full")

    with service.connected() as connection:
        run(connection, "create table item (id integer primary key)")
        with monkeypatch.context() as patch, pytest.raises(FullError):
            patch.setattr(recorder, "store_log_position", full)
            run(connection, "insert into item values (1)")
        assert not connection.in_transaction
        run(connection, "insert into item values (2)")
        assert connection.execute("select id from item").get == 2
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_store_that_is_emptied_is_filled_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "CHECK_SECONDS", 0)
    service.write("create table item (id integer primary key)")
    service.ship()
    service.store.delete(each.name for each in service.store.list())
    service.write("insert into item values (1)")
    service.ship()
    service.ship()
    assert digest(service.restore()) == digest(service.path)


@pytest.mark.parametrize("restarts", [False, True])
def test_folder_whose_disk_is_missing_is_not_filled_and_gets_all_later(
    service: Service, restarts: bool
) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    folder, disk = service.root / "store", service.root / "disk"
    folder.rename(disk)
    folder.mkdir()
    service.write("insert into item values (1)")
    for _ in range(2):
        service.backup._failed.clear()
        with pytest.raises(BackupError, match="does not have the backup of this service any more"):
            service.start() if restarts else service.ship()
    assert not [each for each in folder.rglob("*") if each.is_file()]
    folder.rmdir()
    disk.rename(folder)
    service.backup._failed.clear()
    service.ship()
    assert digest(service.restore()) == digest(service.path)
    assert verify(service.store, lambda *_: None)[1] == []


@pytest.mark.parametrize("kind", ["entries", "snapshot", "values", "blobs"])
def test_objects_that_others_removed_are_stored_again(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    service.write("create table item (id integer primary key)")
    asyncio.run(service.add_blob(b"content"))
    for number in range(2):
        service.write(f"insert into item values ({number})")
        service.ship()
    service.store.delete([each.name for each in service.store.list() if kind in each.name][:1])
    monkeypatch.setattr(shipper, "PRUNE_SECONDS", 0)
    for _ in range(3):
        service.ship()
    assert digest(service.restore()) == digest(service.path)
    objects = service.store.list()
    assert verify(service.store, lambda *_: None) == (len(objects), [])
    assert parse_blobs(each.name for each in objects)


class WaitingStore(BackupStore):
    """A store whose lists of all tables wait for an event."""

    go: threading.Event

    def list(self, prefix: str = "") -> list[StoredObject]:
        if prefix == "tables":
            assert self.go.wait(60)
        return super().list(prefix)


def test_entries_are_stored_while_old_objects_are_removed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    store = WaitingStore(service.store.url, KEY)
    store.go = threading.Event()
    store.go.set()
    service.store = store
    service.start()
    monkeypatch.setattr(shipper, "PRUNE_SECONDS", 0)

    async def scenario() -> None:
        store.go.clear()
        await service.backup._ship(0.01)
        assert ("prune", "") in service.backup._beside
        service.write("insert into item values (1)")
        while service.backup._shipped["shop"].sequence < 2:
            await service.backup._ship(0.01)
        assert ("prune", "") in service.backup._beside
        store.go.set()
        await service.backup._ship(60)

    try:
        asyncio.run(scenario())
    finally:
        store.go.set()
    assert digest(service.restore()) == digest(service.path)


class WaitingParts(BackupStore):
    """A store whose entries wait for an event."""

    go: threading.Event

    def put(self, name: str, content: bytes, mode: str = "overwrite") -> bool:
        if "/entries/" in name:
            assert self.go.wait(60)
        return super().put(name, content, mode)


def test_entries_are_stored_in_the_interval_after_an_upload_that_outlasts_its_own(service: Service) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    store = WaitingParts(service.store.url, KEY)
    store.go = threading.Event()
    service.store = store
    service.start()

    async def scenario() -> None:
        service.write("insert into item values (1)")
        await service.backup._ship(0.01)
        upload = service.backup._beside["tables", "shop"]
        service.write("insert into item values (2)")
        store.go.set()
        await upload
        await service.backup._ship(60)

    try:
        asyncio.run(scenario())
    finally:
        store.go.set()
    assert service.backup._shipped["shop"].sequence == 3
    assert digest(service.restore()) == digest(service.path)


def test_stored_part_of_a_segment_is_not_read_again(service: Service) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    service.write("insert into item values (1)")
    service.ship()
    with service.connected() as connection:  # It writes where the segment ended, and reads nothing before.
        run(connection, "insert into item values (2)")
        [segment] = service.journal()
        with segment.open("r+b") as file:
            file.write(b"damage")
        run(connection, "insert into item values (3)")
    service.ship()
    assert len(parse_tables(each.name for each in service.store.list())[0]) == 1
    assert digest(service.restore()) == digest(service.path)


def test_entries_are_stored_while_snapshots_are(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = service.path.parents[2] / "other" / "tables" / service.path.name
    other.parent.mkdir(parents=True)
    for path in (service.path, other):
        service.write("create table item (id integer primary key)", path=path)
    service.ship()
    monkeypatch.setattr(shipper, "SNAPSHOT_BYTES", 0)
    go = threading.Event()
    for _ in range(shipper.SNAPSHOT_THREADS):
        service.backup._slow_threads.submit(go.wait)
    snapshots = parse_tables(each.name for each in service.store.list())[0]

    async def work() -> None:
        for number in range(3):
            for path in (service.path, other):
                service.write(f"insert into item values ({number})", path=path)
            last = dict[str, int]()
            while set(last.values()) != {number + 1}:
                await service.backup._ship(0.01)
                stored, entries = parse_tables(each.name for each in service.store.list())
                last = {each.project: each.last - first[each.project] for each in entries}
            assert stored == snapshots
            assert digest(await asyncio.to_thread(service.restore)) == digest(service.path)
        go.set()
        await service.backup._ship(60)

    first = {each.project: each.sequence for each in snapshots}
    try:
        asyncio.run(work())
    finally:
        go.set()
    assert len(parse_tables(each.name for each in service.store.list())[0]) == 4
    service.write("insert into item values (9)")
    service.start()
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_foreign_objects_are_ignored(service: Service) -> None:
    for name in ("values/README", "blobs/x", "tables/shop/notes", "tables/shop/a/entries/1-2-x-0"):
        service.store.put(name, b"foreign")
    service.write("create table item (id integer primary key)")
    service.start()
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_partial_uploads_to_a_folder_are_removed(service: Service) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    [snapshot] = (service.root / "store").glob("tables/shop/*/snapshot/*")
    partial = snapshot.with_name(f"{snapshot.name}#1")
    partial.write_bytes(b"a killed upload")
    service.start()
    assert not partial.exists()
    assert digest(service.restore()) == digest(service.path)


def test_table_with_a_text_key_is_stored_without_snapshots(service: Service) -> None:
    service.write("create table item (id text primary key not null, v)")
    service.ship()
    service.write("insert into item values ('a', 1), ('b', 2)", "update item set v = 3 where id = 'a'")
    service.ship()
    assert not [each for each in parse_tables(each.name for each in service.store.list())[1] if each.gaps]
    assert digest(service.restore()) == digest(service.path)


def test_snapshot_follows_a_gap_after_a_restart(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.write("create table item (id integer primary key)", "insert into item values (1)")
    service.ship()
    service.write("create table copied as select * from item")
    service.ship()
    [gap] = [each for each in parse_tables(each.name for each in service.store.list())[1] if each.gaps]
    assert gap.gaps == 1
    service.start()
    monkeypatch.setattr(shipper, "GAP_SECONDS", 0)
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_tables_without_a_journal_are_stored(service: Service) -> None:
    with closing(Connection(str(service.path))) as connection:
        run(connection, "create table item (id integer primary key)", "insert into item values (1)")
    service.ship()
    service.write("insert into item values (2)")
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_damaged_artifact_does_not_stop_a_restore(service: Service) -> None:
    digest_, _ = asyncio.run(service.add_blob(b"sound")), asyncio.run(service.add_blob(b"other"))
    service.ship()
    [blob] = (service.root / "store" / "blobs").glob(f"{digest_}-*")
    blob.write_bytes(blob.read_bytes()[:-1] + bytes([blob.read_bytes()[-1] ^ 1]))
    result = asyncio.run(restore(service.store, KEY, service.root / "new"))
    assert result.report.blobs == 1


def test_many_objects_are_joined_and_old_ones_removed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "MAX_PARTS", 5)
    service.write("create table item (id integer primary key)")
    service.ship()
    for number in range(12):
        service.write(f"insert into item values ({number})")
        service.ship()
    assert len(parse_tables(each.name for each in service.store.list())[1]) < 8
    assert digest(service.restore()) == digest(service.path)


def test_moments_can_be_restored_after_older_objects_are_removed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.write("create table item (id integer primary key)")
    moments = []
    for number in range(12):
        service.write(f"insert into item values ({number})")
        if number % 4 == 3:
            with monkeypatch.context() as patch:
                patch.setattr(shipper, "SNAPSHOT_BYTES", 0)
                service.ship()
        service.ship()
        moments.append((time.time_ns(), digest(service.path)))
    stored = len(service.store.list("tables"))
    since = moments[6][0]
    service.backup._prune(since)
    assert len(service.store.list("tables")) < stored
    for time_ns, expected in moments[6:]:
        assert digest(service.restore(time_ns)) == expected
    service.backup._prune(time.time_ns())
    snapshots, entries = parse_tables(each.name for each in service.store.list())
    assert len(snapshots) == 1
    assert all(each.last > snapshots[0].sequence for each in entries)
    assert digest(service.restore()) == digest(service.path)


def test_tables_are_pruned_once_no_moment_has_their_project(service: Service) -> None:
    service.write("create table item (id integer primary key)")
    service.ship()
    removed_ns = time.time_ns()
    service.backup._removed = {service.path.parents[1].name: removed_ns}
    service.backup._prune(removed_ns - 1)
    assert service.store.list("tables")
    service.backup._prune(time.time_ns())
    assert not service.store.list("tables")


def test_artifacts_that_no_stored_deployment_needs_are_removed(service: Service) -> None:
    async def scenario() -> None:
        record = await deployment(service.bucket, component_artifact(service.root, "old"), "01")
        history = DeploymentHistory(service.bucket)
        await history.add(record)
        loose = await service.add_blob(b"loose")
        await service.backup._ship(60)
        [key] = await service.bucket.kv.list(RECORDS)
        await service.bucket.kv.cas(key.key, None, key.revision)
        needed = {each.digest async for each in service.bucket.blobs.list()} - {loose}
        for each in (*needed, loose):
            await service.bucket.blobs.delete(each, 1 << 62)
        await service.backup._ship(60)
        await service.backup._prune_blobs()
        assert parse_blobs(each.name for each in service.store.list()).keys() == needed
        service.backup._prune(time.time_ns())
        await service.backup._prune_blobs()
        assert not parse_blobs(each.name for each in service.store.list())

    asyncio.run(scenario())


class CountingStore(BackupStore):
    """A store that counts the values that are read."""

    read_values = 0

    def values(self, name: str) -> dict[str, bytes]:
        self.read_values += 1
        return super().values(name)


def test_stored_values_are_read_once(service: Service) -> None:
    service.store = store = CountingStore(service.store.url, KEY)
    service.start()

    async def scenario() -> None:
        await service.add_blob(b"of nothing")
        for number in range(5):
            await service.bucket.kv.cas(f"value/{number}", b"", None)
            await service.backup._ship(60)
        for number in range(3):
            blob = await service.add_blob(b"%d" % number)
            await service.backup._ship(60)
            await service.bucket.blobs.delete(blob, 1 << 62)
            await service.backup._prune_blobs()

    asyncio.run(scenario())
    assert store.read_values == 8
    assert len(parse_blobs(each.name for each in store.list())) == 1


def test_every_damaged_byte_is_found(service: Service) -> None:
    service.write("create table item (id integer primary key, name text)")
    blob = asyncio.run(service.add_blob(b"content"))
    for number in range(3):
        service.write(f"insert into item (name) values ('row {number}')")
        service.ship()
    objects = [each.name for each in service.store.list() if each.name != "service"]
    chosen = random.Random(11)
    for _ in range(200):
        name = chosen.choice(objects)
        path = service.root / "store" / name
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[chosen.randrange(len(sound))] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        [problem] = verify(service.store, lambda *_: None)[1]
        assert (blob if name.startswith("blobs/") else name) in problem
        path.write_bytes(sound)
    assert verify(service.store, lambda *_: None) == (len(objects) + 1, [])


def test_verification_ends_with_the_service(service: Service) -> None:
    service.write("create table item (id integer primary key, name text)")
    service.ship()
    service.store.ended = "the service ends"
    with pytest.raises(BackupError, match="the service ends"):
        verify_tables(service.store, service.path, 0)


def test_tables_are_compared_with_a_restore(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.write("create table item (id integer primary key, name text)", "create table other (id integer)")
    service.ship()
    service.write("insert into item values (1, 'first')")
    assert "not stored yet" in verify_tables(service.store, service.path, 0)
    service.ship()
    assert verify_tables(service.store, service.path, 0) == ""
    monkeypatch.setattr(shipper, "VERIFY_NS", 0)
    alerts = list[tuple[str, str]]()
    service.backup.alert = lambda *alert: alerts.append(alert)
    service.write("insert into item values (2, 'second')")
    service.ship()
    assert alerts == [("shop", "")]
    assert parse_marks(VERIFIED, (each.name for each in service.store.list())).keys() == {"shop"}
    with closing(sqlite3.connect(service.path)) as connection, connection:
        connection.execute("update item set name = 'foreign' where id = 1")
    with pytest.raises(BackupDamaged, match=r"differs from its tables at transaction .*: item$"):
        verify_tables(service.store, service.path, 0)
    service.backup._verified["shop"] = 0
    service.ship()
    assert "item" in alerts[-1][1]
    service.ship()
    assert verify_tables(service.store, service.path, 0) == ""
    assert digest(service.restore()) == digest(service.path)


WRITER = """
import sys
from pathlib import Path
from doors.tables.sqlite.connections import open_owner
connection = open_owner(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 1 << 40):
    connection.execute("begin immediate")
    connection.execute("insert into item values (?, ?)", (number, "x" * (number % 3000)))
    connection.execute("commit")
    print(number, flush=True)
"""


def test_every_committed_transaction_is_stored_after_kills(service: Service) -> None:
    chosen = random.Random(3)
    service.write("create table item (id integer primary key, name text)")
    last = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(service.path), str(last + 1)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(chosen.randrange(1, 60)):
                last = int(process.stdout.readline())
                if chosen.random() < 0.1:
                    service.ship()
            process.kill()
            rest = process.stdout.read().split()
        last = max([last, *(int(each) for each in rest[:-1])])
        with service.connected() as connection:
            last = connection.execute("select max(id) from item").fetchone()[0]
        service.ship()
        assert digest(service.restore()) == digest(service.path)


def test_position_of_another_journal_begins_a_new_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "tables.db")
    after = journal.publish(b"entry", LogPosition("gone", 7, "chain", 0, 0))
    assert after.log != "gone"
    assert after.sequence == 1
