"""Restores of the tables of a live project, with other connections open, and with failures at each step."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.migrations import RECORD, TABLE
from doors.tables.sqlite.connections import Connection
from engine.errors import SvcError
from svc_tui.backup import shipper
from svc_tui.backup.restore import NOW_NS, text
from svc_tui.backup.shipper import Backup, LiveRestore
from svc_tui.backup.store import BackupDamaged, BackupError, BackupStore, parse_tables
from svc_tui.terminal.units import parse_moment
from tests.svc_tui.backup.test_tables import Service, digest, run

ITEM = "create table item (id integer primary key, name text)"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service(tmp_path)
    service.write(ITEM, "insert into item (name) values ('first')")
    service.ship()
    return service


def live(service: Service, time_ns: int = NOW_NS, deployment: str = "") -> LiveRestore:
    return asyncio.run(service.backup.restore("shop", time_ns, deployment))


def moment(service: Service) -> tuple[int, str]:
    """Return a time at which the tables are as now, in microseconds as `--at` has it, and their digest."""
    return parse_moment(text(time.time_ns() + 1000, exact=True)), digest(service.path)


def left(service: Service) -> list[str]:
    """Return the files beside the tables, without those of SQLite."""
    return sorted(each.name for each in service.path.parent.iterdir() if "tables.db" not in each.name)


def names(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("select name from item order by id")]


def test_tables_of_a_moment_replace_those_of_now_and_back(service: Service) -> None:
    first_ns, first = moment(service)
    time.sleep(0.002)
    service.write("insert into item (name) values ('second')", "create table other (id integer primary key)")
    second = digest(service.path)
    with service.connected() as writer, service.connected() as reader:
        assert names(reader) == ["first", "second"]
        restored = live(service, first_ns)
        assert digest(service.path) == first
        assert names(reader) == ["first"]
        run(writer, "insert into item (name) values ('third')")
        assert names(reader) == ["first", "third"]
    service.ship()
    service.ship()
    third_ns, third = moment(service)
    assert digest(service.restore()) == third
    for time_ns, expected in ((parse_moment(restored.before), second), (third_ns, third), (first_ns, first)):
        assert digest(service.restore(time_ns)) == expected
        live(service, time_ns)
        assert digest(service.path) == expected
    assert left(service) == ["journal"]


def test_kill_after_a_live_restore_stores_the_restored_tables(service: Service) -> None:
    first_ns, first = moment(service)
    time.sleep(0.002)
    service.write("delete from item")
    live(service, first_ns)
    service.write("insert into item (name) values ('after')")
    service.start()
    service.ship()
    service.ship()
    assert digest(service.restore()) == digest(service.path) != first


def test_tables_before_are_stored_though_their_journal_has_a_gap(service: Service) -> None:
    first_ns, _ = moment(service)
    time.sleep(0.002)
    service.write("create table copied as select * from item")
    before = digest(service.path)
    restored = live(service, first_ns)
    assert digest(service.restore(parse_moment(restored.before))) == before


def test_tables_before_are_stored_though_the_clock_was_put_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_ns, first = moment(service)
    now = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + 3600 * 10**9)
        service.write("insert into item (name) values ('in an hour')")
        service.ship()
    service.write("insert into item (name) values ('now again')")
    before = digest(service.path)
    restored = live(service, first_ns)
    service.ship()
    service.ship()
    assert digest(service.restore(parse_moment(restored.before))) == before
    assert digest(service.restore()) == first


def test_writes_wait_while_tables_are_replaced_and_none_is_lost(service: Service) -> None:
    first_ns, _ = moment(service)
    time.sleep(0.002)
    acked, end = list[str](), threading.Event()

    def write() -> None:
        with service.connected() as connection:
            while not end.is_set():
                name = f"row {len(acked)}"
                run(connection, f"insert into item (name) values ('{name}')")
                acked.append(name)

    writer = threading.Thread(target=write)
    writer.start()
    while len(acked) < 20:
        time.sleep(0.001)
    restored = live(service, first_ns)
    count = len(acked)
    while len(acked) < count + 20:
        time.sleep(0.001)
    end.set()
    writer.join()
    with closing(sqlite3.connect(service.path)) as connection:
        after = [name for (name,) in connection.execute("select name from item order by id")]
    with closing(sqlite3.connect(service.restore(parse_moment(restored.before)))) as connection:
        before = [name for (name,) in connection.execute("select name from item order by id")]
    assert before[1:] + after[1:] == acked


def test_migrations_that_are_no_longer_applied_are_named(service: Service) -> None:
    first_ns, _ = moment(service)
    time.sleep(0.002)
    service.write(TABLE, f"insert into {RECORD} (name, sha256) values ('tables/0002-new.sql', 'x')")
    assert live(service, first_ns).migrations == ["tables/0002-new.sql"]


def test_tables_that_were_moved_away_are_restored(service: Service) -> None:
    expected = digest(service.path)
    shutil.rmtree(service.path.parent)
    live(service)
    assert digest(service.path) == expected


def _damage_entries(service: Service) -> None:
    [part, *_] = sorted((service.root / "store").glob("tables/shop/*/entries/*"))
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _lose_entries(service: Service) -> None:
    parts = parse_tables(each.name for each in service.store.list())[1]
    (service.root / "store" / parts[0].name).unlink()


def _lose_store(service: Service) -> None:
    (service.root / "store").rename(service.root / "gone")


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (_damage_entries, BackupDamaged, "is damaged"),
        (_lose_entries, BackupError, r"the transactions 2 to 2 are missing"),
        (_lose_store, BackupError, "has no tables of shop|cannot be"),
    ],
)
def test_failed_restore_leaves_the_tables(
    service: Service, change: Callable[[Service], None], kind: type[SvcError], message: str
) -> None:
    for name in ("second", "third"):
        service.write(f"insert into item (name) values ('{name}')")
        service.ship()
    expected = digest(service.path)
    change(service)
    with pytest.raises(kind, match=message):
        live(service)
    assert digest(service.path) == expected and left(service) == ["journal"]


def test_moment_before_the_backup_and_an_unknown_deployment_are_refused(service: Service) -> None:
    expected = digest(service.path)
    with pytest.raises(BackupError, match="the backup of its tables begins at"):
        live(service, 10**18)
    with pytest.raises(BackupError, match="has no deployment x"):
        live(service, deployment="x")
    with pytest.raises(SvcError, match="not a time"):
        parse_moment("yesterday")
    assert digest(service.path) == expected


def test_restore_while_another_one_runs_or_the_store_is_not_known_is_refused(service: Service) -> None:
    service.backup.restoring["shop"] = service.store
    with pytest.raises(SvcError, match="are being restored"):
        live(service)
    service.backup.restoring.clear()
    service.backup = shipper.Backup(service.store, service.root / "data", service.bucket, lambda *_: None)
    with pytest.raises(SvcError, match="the backup waits"):
        live(service)


@pytest.mark.parametrize("by_request", [False, True])
@pytest.mark.parametrize("step", [BackupStore.read, Backup._store_before, Backup._ship_journal])
def test_restore_is_canceled_until_its_tables_are_replaced(
    service: Service, monkeypatch: pytest.MonkeyPatch, step: Callable[..., object], by_request: bool
) -> None:
    first_ns, _ = moment(service)
    time.sleep(0.002)
    service.write("insert into item (name) values ('second')")
    expected, reached, release = digest(service.path), threading.Event(), threading.Event()

    def held(*arguments: object) -> object:
        reached.set()
        assert release.wait(10)
        return step(*arguments)

    async def canceled() -> None:
        restore = asyncio.create_task(service.backup.restore("shop", first_ns, ""))
        await asyncio.to_thread(reached.wait)
        if by_request:
            service.backup.restoring["shop"].ended = "canceled; not changed"
        else:
            restore.cancel()
            await asyncio.sleep(0.01)
        release.set()
        await restore

    owner = BackupStore if step is BackupStore.read else Backup
    with monkeypatch.context() as patch:
        patch.setattr(owner, step.__name__, held)
        with pytest.raises(BackupError if by_request else asyncio.CancelledError, match=r"not changed|^$"):
            asyncio.run(canceled())
    assert digest(service.path) == expected and left(service) == ["journal"]
    assert not service.backup.restoring
    live(service, first_ns)


def test_log_of_the_service_has_a_restore_though_its_caller_is_gone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_ns, first = moment(service)
    time.sleep(0.002)
    service.write("insert into item (name) values ('second')")
    second, lines, replace = digest(service.path), list[str](), shipper.replace_tables
    service.backup._log = lambda level, line: lines.append(line)

    async def scenario() -> None:
        restore = asyncio.create_task(service.backup.restore("shop", first_ns, ""))
        loop = asyncio.get_running_loop()

        def replaced(path: Path, source: Path, before: Callable[[], int]) -> int:
            result = replace(path, source, before)
            loop.call_soon_threadsafe(restore.cancel)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(shipper, "replace_tables", replaced)
            await restore

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())
    assert digest(service.path) == first
    [line] = lines
    live(service, parse_moment(line.rpartition("to go back: svc restore --service --project shop --at ")[2]))
    assert digest(service.path) == second


def test_copies_of_a_killed_service_are_removed_at_its_start(service: Service) -> None:
    script = (
        "import os, pathlib, sys; from engine.files.temporary import temporary_folder\n"
        "with temporary_folder('svc-restore-', pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, service.path.parent], check=False)
    assert len(left(service)) == 2

    async def start() -> None:
        async with service.backup.running():
            assert left(service) == ["journal"]

    asyncio.run(start())
