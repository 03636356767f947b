import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, TimelineFollower
from engine.timeline.record import Record
from engine.timeline.recorder import Retention, TimelineStore
from tests.engine.timeline.records import BEGAN, LINE, SECOND, line, record_of

WRITE = """
import sys
from pathlib import Path
from engine.timeline.record import LineRecord
from engine.timeline.recorder import TimelineStore
for start in range(0, 3000, 100):
    store = TimelineStore(Path(sys.argv[1]))
    for number in range(start, start + 100, 10):
        store.append([LineRecord(number + i, "", "web", "stdout", "") for i in range(10)], number)
    store.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path)


def write(path: Path, *records: Record) -> None:
    store = TimelineStore(path)
    store.append(records, BEGAN)
    store.close()


def open_files() -> list[str]:
    names = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(str(link.readlink()))
    return names


def polled(follower: TimelineFollower) -> list[Record]:
    return [record_of(entry) for entry in follower.poll().entries]


def test_follower_waits_for_missing_file_without_creating_it(path: Path) -> None:
    follower = TimelineFollower(path, RecordFilter(), 0)
    assert polled(follower) == []
    assert not path.parent.exists()
    write(path, line(1))
    assert polled(follower) == [line(1)]


def test_follower_returns_each_record_once(path: Path) -> None:
    writing = subprocess.Popen([sys.executable, "-c", WRITE, str(path)])
    follower = TimelineFollower(path, RecordFilter(), 0)
    result: list[int] = []
    while writing.poll() is None:
        result += [record.time_ns for record in polled(follower)]
    while page := polled(follower):
        result += [record.time_ns for record in page]
    assert writing.returncode == 0
    assert result == list(range(3000))


def test_follower_has_no_open_file_and_opens_an_unchanged_one_no_more(path: Path) -> None:
    """Thousands of followers would otherwise use up the limit of open files."""
    write(path, line(1))
    follower = TimelineFollower(path, RecordFilter(), 0)
    assert polled(follower) == [line(1)]
    assert not [each for each in open_files() if each.startswith(str(path))]
    os.utime(path, ns=(0, BEGAN))
    assert polled(follower) == []
    content = path.read_bytes()
    path.write_bytes(b"not a database".ljust(len(content)))
    os.utime(path, ns=(0, BEGAN))
    assert polled(follower) == []
    path.write_bytes(content)
    write(path, line(2))
    assert polled(follower) == [line(2)]


def test_follower_resumes_at_position(path: Path) -> None:
    write(path, *map(line, range(5)))
    first = TimelineFollower(path, RecordFilter(), 0)
    cursors = [entry["cursor"] for entry in first.poll().entries]
    second = TimelineFollower(path, RecordFilter(), cursors[2])
    assert polled(second) == [line(3), line(4)]


def test_follower_skips_filtered_records_once(path: Path) -> None:
    follower = TimelineFollower(path, RecordFilter(resource="api"), 0)
    write(path, *map(line, range(2500)), replace(LINE, resource="api"))
    assert polled(follower) == [replace(LINE, resource="api")]
    position = follower.position
    write(path, line(1))
    assert polled(follower) == [] and follower.position == position + 1


def test_slow_follower_gets_dropped_count(path: Path) -> None:
    write(path, line(1))
    follower = TimelineFollower(path, RecordFilter(), 0)
    assert polled(follower) == [line(1)]
    store = TimelineStore(path, Retention(max_age_seconds=1))
    store.append([line(number) for number in range(2, 10)], BEGAN)
    store.append([line(10)], BEGAN + 10 * SECOND)
    store.trim(BEGAN + 10 * SECOND)
    store.close()
    page = follower.poll()
    assert page.dropped == 8
    assert [record_of(entry) for entry in page.entries] == [line(10)]
    assert follower.poll().dropped == 0


def test_follower_restarts_on_recreated_file(path: Path) -> None:
    write(path, line(1))
    follower = TimelineFollower(path, RecordFilter(), 0)
    assert polled(follower) == [line(1)]
    for file in path.parent.glob("timeline.db*"):
        file.unlink()
    assert polled(follower) == []
    write(path, line(2), line(3))
    assert polled(follower) == [line(2), line(3)]


def test_follower_with_future_cursor_restarts(path: Path) -> None:
    write(path, line(1))
    follower = TimelineFollower(path, RecordFilter(), (1 << 63) - 1)
    assert polled(follower) == [line(1)]
