"""Backups and restores while the disk of the service fails at each of their operations in turn.

`… FOLDER ERROR FIRST DISTANCE`: one operation on a file fails with this error, the `FIRST` one of a step,
then one `DISTANCE` further. Fails if the tables are neither as before nor as restored, or if a later try
fails. Prints how many steps failed of each kind.
"""

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from doors.tables.sqlite.connections import Error
from engine.errors import SvcError
from svc_tui.backup.restore import NOW_NS, restore
from tests.support.failing_disk import Disk, FailingVfs
from tests.svc_tui.backup.test_tables import KEY, Service


def names(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return [name for (name,) in connection.execute("select name from item order by id")]


class Steps:
    """The steps of a backup, each of which is repeated until none of its operations fails."""

    def __init__(self, root: Path, error: int, first: int, distance: int) -> None:
        self.disk, self.root = Disk(str(root / "disk"), error), root
        self.first, self.distance = first, distance
        self.before = list[str]()
        (root / "disk").mkdir()
        self.service = Service(root / "disk")
        self.service.write("create table item (id integer primary key, name text)")
        self.vfs = FailingVfs(self.disk)
        self.disk.install()

    def failures(self, step: Callable[[int], None], after: Callable[[int, bool], None]) -> int:
        """Return how many tries of a step failed. `after` gets the number of each, and whether it failed."""
        failures = 0
        for number in count(self.first, self.distance):
            self.disk.failed, failed = "", False
            try:
                step(number)
            except (SvcError, Error, OSError):
                failed = True
            self.disk.remaining = 0
            after(number, failed)
            failures += failed
            if not self.disk.failed:
                assert not failed
                return failures
        raise AssertionError

    def ship(self) -> int:
        service = self.service

        def step(number: int) -> None:
            self.disk.remaining = number
            service.write(f"insert into item (name) values ('{number}')")
            service.backup._failed.clear()
            service.ship()

        def after(_number: int, _failed: bool) -> None:
            service.backup._failed.clear()
            service.ship()
            service.ship()
            assert names(service.restore()) == names(service.path), self.disk.failed

        return self.failures(step, after)

    def restore_live(self) -> int:
        service, live = self.service, self.service.backup.restore
        service.ship()
        earlier_ns, earlier = time.time_ns(), names(service.path)
        time.sleep(0.002)

        def step(number: int) -> None:
            service.write(f"insert into item (name) values ('later {number}')")
            self.before = names(service.path)
            self.disk.remaining = number
            asyncio.run(live("shop", earlier_ns, ""))

        def after(_number: int, failed: bool) -> None:
            expected = self.before if failed else earlier
            assert names(service.path) == expected, self.disk.failed
            service.backup._failed.clear()
            service.ship()
            service.ship()
            assert names(service.restore()) == expected, self.disk.failed

        return self.failures(step, after)

    def restore_all(self) -> int:
        expected = names(self.service.path)

        def target(number: int) -> Path:
            return self.root / "disk" / f"new{number}"

        def step(number: int) -> None:
            self.disk.remaining = number
            asyncio.run(restore(self.service.store, KEY, target(number), NOW_NS))

        def after(number: int, failed: bool) -> None:
            # The folder is whole when it has its name, which may not be on the disk yet.
            assert failed or target(number).exists(), self.disk.failed
            if target(number).exists():
                assert names(target(number) / "projects/shop/tables/tables.db") == expected

        return self.failures(step, after)


def main(root: Path, error: int, first: int, distance: int) -> None:
    steps = Steps(root, error, first, distance)
    print(f"whole, after {steps.ship()}, {steps.restore_live()} and {steps.restore_all()} failures")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
