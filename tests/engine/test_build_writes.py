import os
import time
from pathlib import Path

from engine.dev.project import BUILDS_IN_A_ROW, BuildInterval, BuildWriteFilter


def build(number: int, *written: Path) -> BuildInterval:
    """Run a build that writes files; return its interval."""
    began = time.time_ns()
    for path in written:
        path.write_text(str(number))
    return BuildInterval(number, began - 10_000_000, time.time_ns() + 10_000_000)


def test_file_written_by_every_build_stops_triggering_builds(tmp_path: Path) -> None:
    own, stamp = BuildWriteFilter(), tmp_path / "stamp"
    results = [own.split({stamp}, build(number, stamp)) for number in range(1, BUILDS_IN_A_ROW + 3)]
    assert [bool(saves) for saves, _ in results] == [True] * (BUILDS_IN_A_ROW - 1) + [False] * 3
    assert [bool(found) for _, found in results] == [False] * (BUILDS_IN_A_ROW - 1) + [True] + [False] * 2


def test_save_during_build_triggers_another(tmp_path: Path) -> None:
    source = tmp_path / "source"
    assert BuildWriteFilter().split({source}, build(1, source)) == ({source}, set())


def test_lock_file_that_a_build_writes_starts_none(tmp_path: Path) -> None:
    own, lock, gone = BuildWriteFilter(), tmp_path / "package-lock.json", tmp_path / "yarn.lock"
    window = build(1, lock)
    assert own.split({lock, gone}, BuildInterval(1, window.start_ns)) == (set(), set())
    assert own.split({lock}, BuildInterval(1, 1, 2)) == ({lock}, set())


def test_save_between_builds_triggers_builds_again(tmp_path: Path) -> None:
    own, file = BuildWriteFilter(), tmp_path / "file"
    for number in range(1, BUILDS_IN_A_ROW + 1):
        window = build(number, file)
        own.split({file}, window)
    window = BuildInterval(BUILDS_IN_A_ROW, 1, 2)
    assert own.split({file}, window) == ({file}, set())
    assert own.split({file}, build(BUILDS_IN_A_ROW + 1, file)) == ({file}, set())


def test_events_of_one_build_count_once(tmp_path: Path) -> None:
    own, file = BuildWriteFilter(), tmp_path / "file"
    window = build(1, file)
    for _ in range(BUILDS_IN_A_ROW + 2):
        assert own.split({file}, window)[0] == {file}


def test_removed_file_counts_as_changed_now(tmp_path: Path) -> None:
    running = BuildInterval(1, time.time_ns() - 1)
    deleted = tmp_path / "gone"
    assert BuildWriteFilter().split({deleted}, running) == ({deleted}, set())
    assert not os.path.lexists(deleted)
