"""Backups with lying stores, newer formats, clocks that go back, large transactions and failing disks."""

import asyncio
import errno
import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from doors.tables.replication import copy, journal, recorder
from doors.tables.replication import entry as entries
from doors.tables.replication.journal import JournalEntry, read_frames
from doors.tables.sqlite.errors import FullError
from engine.service.secrets import SecretsKey
from svc_tui.backup import shipper
from svc_tui.backup.restore import NOW_NS, restore, text, verify
from svc_tui.backup.shipper import Backup
from svc_tui.backup.store import (
    ID_FILE,
    BackupDamaged,
    BackupError,
    BackupStore,
    BackupTaken,
    StoredObject,
    parse_tables,
    values_times,
)
from svc_tui.terminal.units import parse_moment
from tests.support.examples import is_fuzzing
from tests.support.full_disk import ROOT
from tests.support.waiting import until
from tests.svc_tui.backup.test_tables import KEY, Service, WaitingParts, digest


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service(tmp_path)
    service.write("create table item (id integer primary key, v)")
    service.ship()
    return service


def add(service: Service, *numbers: int) -> None:
    """Write rows and store each."""
    for number in numbers:
        service.write(f"insert into item values ({number}, 'row {number}')")
        service.ship()


class OldStore(BackupStore):
    """A store that returns an old list of its objects."""

    old: Sequence[StoredObject] | None = None

    def list(self, prefix: str = "") -> list[StoredObject]:
        if self.old is None:
            return super().list(prefix)
        return [each for each in self.old if each.name.startswith(f"{prefix}/" if prefix else "")]


@pytest.mark.parametrize("joined", [False, True])
def test_old_list_of_the_store_loses_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    old = OldStore(service.store.url, KEY)
    add(service, 1, 2)
    then, expected = service.store.list(), digest(service.path)
    add(service, 3, 4)
    if joined:
        monkeypatch.setattr(shipper, "MAX_PARTS", 1)
        add(service, 5)
    service.store, old.old = old, then
    if joined:  # The objects of the list were replaced.
        with pytest.raises(BackupDamaged, match="lacks an object"):
            service.restore()
        assert not (service.root / "restored1").exists()
    else:
        assert digest(service.restore()) == expected
    monkeypatch.setattr(shipper, "PRUNE_SECONDS", 0)
    service.start()
    add(service, 6, 7)
    old.old = None
    add(service, 8)
    service.ship()
    assert digest(service.restore()) == digest(service.path)
    assert verify(old, lambda *_: None)[1] == []


def test_object_of_another_service_or_of_another_place_is_named(service: Service, tmp_path: Path) -> None:
    add(service, 1, 2)
    other = Service(tmp_path / "other")
    other.write("create table item (id integer primary key, v)")
    parts = parse_tables(each.name for each in service.store.list())[1]
    first, second = (service.root / "store" / each.name for each in parts[:2])
    sound = first.read_bytes()
    BackupStore(service.store.url, SecretsKey.create()).put(parts[0].name, b"foreign")
    with pytest.raises(BackupDamaged, match="sealed with another key"):
        service.restore()
    first.write_bytes(second.read_bytes())
    with pytest.raises(BackupDamaged, match=re.escape(parts[0].name)):
        service.restore()
    assert len(verify(service.store, lambda *_: None)[1]) == 1
    first.write_bytes(sound)
    assert digest(service.restore()) == digest(service.path)


def test_two_services_with_one_prefix(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = Backup(service.store, tmp_path / "second", service.bucket, lambda *_: None)
    (tmp_path / "second").mkdir()
    with pytest.raises(BackupTaken, match="has the backup of another service"):
        second._begin()
    # An operator removes the mark, and starts the second one: the first one stops.
    service.store.delete(["service"])
    second._begin()
    monkeypatch.setattr(shipper, "CHECK_SECONDS", 0)
    service.ship()
    before = service.store.list("tables")
    service.write("insert into item values (1, 'only here')")
    for _ in range(2):
        service.backup._failed.clear()
        with pytest.raises(BackupTaken):
            service.ship()
    assert service.store.list("tables") == before
    (tmp_path / "second" / ID_FILE).write_text("{")
    with pytest.raises(BackupTaken, match="is damaged"):
        second._begin()


def _rewritten(service: Service, change: str) -> None:
    """Replace the last object with entries by one of a newer svc."""
    part = parse_tables(each.name for each in service.store.list())[1][-1]
    path = service.root / "store" / part.name
    frames = service.store.get(part.name)
    if change == "object":
        path.write_bytes(path.read_bytes().replace(b"svcb1", b"svcb2", 1))
    elif change == "frame":
        service.store.put(part.name, frames.replace(b"svcj", b"svck", 1))
    else:
        path.unlink()
        [frame] = read_frames(frames)
        head, _, body = frame.content.partition(b"\n")
        newer = json.dumps({**json.loads(head), "format": entries.FORMAT + 1}).encode() + b"\n" + body
        service.store.put(part.name, JournalEntry(frame.sequence, frame.time_ns, newer).frame())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("object", "has a newer format"),
        ("frame", "has transactions of a newer format; update svc"),
        ("entry", "has a newer format; update svc"),
    ],
)
def test_log_of_a_newer_version_is_refused(service: Service, change: str, message: str) -> None:
    add(service, 1, 2)
    _rewritten(service, change)
    with pytest.raises(BackupDamaged, match=message):
        service.restore()
    assert not (service.root / "restored1").exists()
    with pytest.raises(BackupDamaged, match=message):
        asyncio.run(service.backup.restore("shop", NOW_NS, ""))


def test_clock_that_goes_back_loses_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    now, hour_ns = time.time_ns, 3600 * 10**9
    monkeypatch.setattr(shipper, "GAP_SECONDS", 0)
    for hours in (5, 0, 3, 1, -2):
        monkeypatch.setattr(time, "time_ns", lambda hours=hours: now() + hours * hour_ns)
        add(service, hours + 100)
        asyncio.run(service.add_blob(f"{hours}".encode()))
        service.write(f"create table t{hours + 100} as select * from item")  # A snapshot follows.
        service.ship()
        service.ship()
        if hours == 3:
            service.start()
        assert digest(service.restore()) == digest(service.path)
    names = [each.name for each in service.store.list("values")]
    assert values_times(names) == sorted(values_times(names))
    result = asyncio.run(restore(service.store, KEY, service.root / "last"))
    assert result.report.values == len(asyncio.run(service.bucket.kv.list("")))


def test_moment_before_the_backup_and_a_folder_with_content_are_refused(service: Service) -> None:
    asyncio.run(service.add_blob(b"a value"))
    service.ship()
    with pytest.raises(BackupError, match="begins at"):
        service.restore(1)
    (service.root / "used").mkdir()
    (service.root / "used" / "file").touch()
    with pytest.raises(BackupError, match="is not empty"):
        asyncio.run(restore(service.store, KEY, service.root / "used"))
    with pytest.raises(BackupDamaged, match="sealed with another key"):
        other = BackupStore(service.store.url, SecretsKey.create())
        asyncio.run(restore(other, SecretsKey.create(), service.root / "new"))
    assert not (service.root / "new").exists()


def test_large_transactions_are_stored(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "insert into item (v) select randomblob(100000) from (values (1), (2), (3), (4), (5), (6), (7))"
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 1 << 20)
    service.write(*[rows] * 6)  # 4 MiB of random bytes, and more than a segment has.
    add(service, 1001)
    assert digest(service.restore()) == digest(service.path)
    monkeypatch.setattr(recorder, "MAX_CHANGES", 2 << 20)
    monkeypatch.setattr(shipper, "GAP_SECONDS", 0)
    service.write(*[rows] * 6)
    service.ship()
    service.ship()
    gaps = [each for each in parse_tables(each.name for each in service.store.list())[1] if each.gaps]
    assert len(gaps) == 1
    assert digest(service.restore()) == digest(service.path)


class LossyStore(BackupStore):
    """A store that refuses or forgets some writes."""

    chance = random.Random(5)
    share = 0.0

    def put(self, name: str, content: bytes, mode: str = "overwrite") -> bool:
        if self.chance.random() < self.share:
            raise BackupError("the store refuses", "")
        stored = super().put(name, content, mode)
        if self.chance.random() < self.share / 2:
            raise BackupError("the answer was lost", "")
        return stored


def test_store_that_refuses_and_loses_answers_has_everything_in_the_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = LossyStore(service.store.url, KEY)
    lossy.share = 0.4
    service.store = lossy
    service.start()
    failures = 0
    for number in range(30):
        service.write(f"insert into item values ({number}, {number})")
        service.backup._failed.clear()
        try:
            service.ship()
        except BackupError:
            failures += 1
    lossy.share = 0.0
    service.backup._failed.clear()
    service.ship()
    assert failures > 5
    assert digest(service.restore()) == digest(service.path)


def test_store_that_does_not_answer_is_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SECONDS", 0.05), ("CHECK_SECONDS", 0.1), ("ALERT_SECONDS", 0.5)):
        monkeypatch.setattr(shipper, name, seconds)
    store, lines, alerts = WaitingParts(service.store.url, KEY), list[str](), list[str]()
    store.go = threading.Event()
    backup = Backup(store, service.root / "data", service.bucket, lambda _, line: lines.append(line))
    backup.alert = lambda _, text: alerts.append(text)

    async def run() -> None:
        async with backup.running():
            service.write("insert into item values (1, 1)")
            await asyncio.to_thread(until, lambda: alerts and alerts[-1])
            store.go.set()
            await asyncio.to_thread(until, lambda: not alerts[-1])

    asyncio.run(run())
    silent = f"the backup waits: the store at {store.url} does not answer"
    stored = f"the backup is stored at {store.url}"
    assert lines == [stored, silent, "the backup is complete again"] and silent in alerts
    assert digest(service.restore()) == digest(service.path)


def test_restored_tables_do_not_continue_the_journal_of_the_service(service: Service) -> None:
    add(service, 1)
    asyncio.run(service.backup.restore("shop", NOW_NS, ""))
    service.ship()  # A snapshot at the begin of a journal, which entries follow.
    restored = service.restore()
    add(service, 2)
    shutil.rmtree(service.path.parent)
    restored.parent.rename(service.path.parent)
    service.write("insert into item values (3, 3)")
    service.write("insert into item values (4, 4)")
    service.start()
    service.ship()
    assert digest(service.restore()) == digest(service.path)


def test_restore_fills_the_folder_that_it_is_given_also_through_a_link(service: Service) -> None:
    folder, link = service.root / "volume", service.root / "link"
    link.symlink_to(folder)
    asyncio.run(restore(service.store, KEY, link))
    assert folder.is_dir() and link.is_symlink()
    names = {each.name for each in folder.iterdir()}
    shutil.rmtree(folder)
    (folder / ".svc-restore-killed").mkdir(parents=True)
    (folder / ".svc-restore-killed" / ".svc-owner").touch()
    place = folder.stat().st_ino  # Of a mount point, which cannot be replaced.
    asyncio.run(restore(service.store, KEY, link))
    assert folder.stat().st_ino == place and {each.name for each in folder.iterdir()} == names
    assert digest(folder / "projects" / "shop" / "tables" / "tables.db") == digest(service.path)


@pytest.mark.parametrize("has_earlier", [False, True])
def test_lost_snapshot_is_named(service: Service, has_earlier: bool) -> None:
    add(service, 1)
    earlier = digest(service.path)
    if has_earlier:  # Another journal begins, with a snapshot of its own.
        asyncio.run(service.backup.restore("shop", NOW_NS, ""))
        service.ship()
    add(service, 2)
    snapshots = parse_tables(each.name for each in service.store.list())[0]
    service.store.delete([max(snapshots, key=lambda each: each.time_ns).name])
    assert len(snapshots) == (2 if has_earlier else 1)
    target = service.root / "restored"
    [tables] = asyncio.run(restore(service.store, KEY, target)).tables
    assert "is missing" in tables.problem
    with pytest.raises(BackupError, match="is missing"):
        asyncio.run(service.backup.restore("shop", NOW_NS, ""))
    if has_earlier:
        assert digest(target / "projects" / "shop" / "tables" / "tables.db") == earlier
        moment = parse_moment(text(tables.last_ns, exact=True))
        assert digest(service.restore(moment)) == earlier


@pytest.mark.parametrize(
    "url", ["", "/folder", "s3:/b", "ftp://h/p", "file://folder", "memory:///", "S4://b"]
)
def test_url_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(BackupError, match="is not the URL of a store"):
        BackupStore(url, KEY, create=True)


def test_full_disk_is_no_damage_of_the_backup(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise FullError("database or disk is full")

    add(service, 1)
    with monkeypatch.context() as patch:
        patch.setattr(copy, "store_log_position", full)
        with pytest.raises(
            BackupError, match="shop cannot be restored: the disk of this node is full"
        ) as failure:
            asyncio.run(restore(service.store, KEY, service.root / "new"))
    assert not isinstance(failure.value, BackupDamaged)


def test_moment_that_a_failed_restore_names_can_be_restored(service: Service) -> None:
    expected = digest(service.path)
    service.write("create table item2 as select 1")  # Without a record, and with no snapshot for a minute.
    later = digest(service.path)
    service.ship()
    with pytest.raises(BackupError, match="had no record") as failure:
        asyncio.run(service.backup.restore("shop", NOW_NS, ""))
    assert "no snapshot follows" in failure.value.message
    moment, between = failure.value.hint.rpartition(" ")[2], time.time_ns()
    asyncio.run(service.backup.restore("shop", parse_moment(moment), ""))
    assert digest(service.path) == expected
    with pytest.raises(BackupError, match="had no record; the next snapshot is --at") as failure:
        asyncio.run(service.backup.restore("shop", between, ""))
    asyncio.run(service.backup.restore("shop", parse_moment(failure.value.message.rpartition(" ")[2]), ""))
    assert digest(service.path) == later


def test_restore_to_random_moments_equals_a_model(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, chosen = (200, 200) if is_fuzzing() else (40, 12)
    for name, value in {"GAP_SECONDS": 0, "MAX_PARTS": 9, "SNAPSHOT_BYTES": 6000}.items():
        monkeypatch.setattr(shipper, name, value)
    chance, model = random.Random(17), list[tuple[int, str]]()
    for number in range(moments):
        service.write(f"insert into item (v) values ({number})")
        match chance.randrange(6):
            case 0:
                service.write(f"alter table item add column c{number}")
            case 1:
                service.write(f"delete from item where id % 7 = {number % 7}")
            case 2:
                service.write(f"create table t{number} (id integer primary key, v)")
        if chance.random() < 0.6:
            service.ship()
        model.append((time.time_ns(), digest(service.path)))
    service.ship()
    service.ship()
    for time_ns, expected in chance.sample(model, chosen):
        assert digest(service.restore(time_ns)) == expected


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_disk_that_fails_at_any_step_loses_nothing(tmp_path: Path, error: int) -> None:
    first, distance = ("1", "1") if is_fuzzing() else ("2", "11")
    module = "tests.svc_tui.backup.failing_restores"
    command = [sys.executable, "-m", module, str(tmp_path), str(error), first, distance]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = process.stdout + process.stderr
    assert re.fullmatch(r"whole, after [1-9]\d*, [1-9]\d* and [1-9]\d* failures\n", process.stdout), printed
