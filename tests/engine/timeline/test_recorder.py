import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from engine.errors import SvcError
from engine.timeline.bus import TimelineBus
from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, TimelineFollower, TimelineReader
from engine.timeline.record import LineRecord, PlatformRecord, Record
from engine.timeline.recorder import TimelineRecorder, TimelineStore
from engine.timeline.recording import Recording
from tests.engine.timeline.records import BEGAN, LINE, REQUEST, STRUCTURED, line, record_of
from tests.support.waiting import until

FULL = """
import resource, signal, sys, threading
from pathlib import Path
from engine.timeline.bus import TimelineBus
from engine.timeline.record import LineRecord
from engine.timeline.recorder import TimelineRecorder
from engine.timeline.recording import Recording
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
reported = threading.Event()
def warn(error):
    print(error.message, flush=True)
    reported.set()
timeline = TimelineBus()
recorder = TimelineRecorder(Path(sys.argv[1]), timeline, warn, interval=0.01, retry=0.01)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(600):
    timeline.append(LineRecord(number, "", "web", "stdout", str(number) * 500))
assert reported.wait(60)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
timeline.append(LineRecord(600, "", "web", "stdout", "after"))
recorder.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path)


def stored(path: Path) -> list[Record]:
    reader = TimelineReader(path)
    result = [record_of(entry) for entry in reader.tail(1 << 40, RecordFilter())] if not reader.empty else []
    reader.close()
    return result


class ReportedErrors:
    """A list of warnings."""

    def __init__(self) -> None:
        self.errors: list[SvcError] = []
        self.event = threading.Event()

    def __call__(self, error: SvcError) -> None:
        self.errors.append(error)
        self.event.set()


@pytest.fixture
def reported() -> Iterator[ReportedErrors]:
    yield ReportedErrors()


def test_recorder_writes_continuously_and_on_close(path: Path, reported: ReportedErrors) -> None:
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    timeline.append(REQUEST)
    until(lambda: path.exists() and bool(stored(path)))
    timeline.append(STRUCTURED)
    timeline.append(LINE)
    recorder.close()
    assert stored(path) == [REQUEST, STRUCTURED, LINE]
    assert reported.errors == []


def test_recorder_without_records_creates_no_file(path: Path, reported: ReportedErrors) -> None:
    TimelineRecorder(path, TimelineBus(), reported).close()
    assert not path.parent.exists()


def test_concurrent_appends_lose_nothing_and_preserve_thread_order(
    path: Path, reported: ReportedErrors
) -> None:
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)

    def many(who: str) -> None:
        for number in range(3000):
            timeline.append(LineRecord(number, "", who, "stdout", ""))

    threads = [threading.Thread(target=many, args=(who,)) for who in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    for who in "abcd":
        assert [record.time_ns for record in stored(path) if record.resource == who] == list(range(3000))


def test_two_recorders_of_one_project_lose_nothing(path: Path, reported: ReportedErrors) -> None:
    timelines = [TimelineBus(), TimelineBus()]
    recorders = [TimelineRecorder(path, timeline, reported, interval=0.005) for timeline in timelines]
    for number in range(4000):
        timelines[number % 2].append(line(number))
    for recorder in recorders:
        recorder.close()
    assert {record.time_ns - BEGAN for record in stored(path)} == set(range(4000))
    assert reported.errors == []


def test_recorder_recreates_deleted_folder(path: Path, reported: ReportedErrors) -> None:
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    timeline.append(line(1))
    until(lambda: path.exists() and bool(stored(path)))
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    timeline.append(line(2))
    recorder.close()
    assert stored(path) == [line(2)]
    assert reported.errors == []


def test_corrupt_file_is_quarantined_and_replaced(path: Path, reported: ReportedErrors) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 100)
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    timeline.append(LINE)
    recorder.close()
    assert stored(path) == [LINE]
    (quarantined,) = path.parent.glob("timeline-damaged-*.db")
    assert quarantined.read_bytes() == b"not a database at all" * 100
    (error,) = reported.errors
    assert "corrupt" in error.message and quarantined.name in error.hint


def test_file_corrupted_while_open_is_quarantined(path: Path, reported: ReportedErrors) -> None:
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01, retry=0.01)
    timeline.append(line(1))
    until(lambda: path.exists() and bool(stored(path)))
    follower = TimelineFollower(path, RecordFilter(), 0)
    assert [record_of(entry) for entry in follower.poll().entries] == [line(1)]
    for file in path.parent.glob("timeline.db*"):
        file.unlink()
    path.write_bytes(b"rubbish" * 1000)
    timeline.append(line(2))
    assert reported.event.wait(60)
    recorder.close()
    assert [record_of(entry) for entry in follower.poll().entries] == [line(2)]
    assert len(list(path.parent.glob("timeline-damaged-*.db"))) == 1


def test_internally_corrupt_file_is_quarantined_when_detected(path: Path, reported: ReportedErrors) -> None:
    store = TimelineStore(path)
    store.append([line(number) for number in range(5000)], BEGAN)
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xee" * (path.stat().st_size - 4096))
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    timeline.append(LINE)
    recorder.close()
    assert stored(path) == [LINE]
    assert "corrupt" in reported.errors[0].message


def test_recorder_leaves_file_of_newer_svc_unchanged(path: Path, reported: ReportedErrors) -> None:
    TimelineStore(path).close()
    database = apsw.Connection(str(path))
    database.execute("pragma user_version = 99")
    database.close()
    before = path.read_bytes()
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    timeline.append(LINE)
    assert reported.event.wait(60)
    timeline.append(LINE)
    recorder.close()
    assert path.read_bytes() == before
    assert ["newer svc" in error.message for error in reported.errors] == [True]


def test_recorder_retries_until_folder_is_available(path: Path, reported: ReportedErrors) -> None:
    path.parent.write_text("in the way")
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01, retry=0.01)
    timeline.append(line(1))
    assert reported.event.wait(60)
    timeline.append(line(2))
    path.parent.unlink()
    recorder.close()
    assert stored(path) == [line(1), line(2)]
    assert len(reported.errors) == 1


def test_pending_records_are_bounded_and_losses_reported(path: Path, reported: ReportedErrors) -> None:
    path.parent.write_text("in the way")
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=60, max_pending_bytes=100_000)
    for number in range(1000):
        timeline.append(replace(line(number), text="x" * 488))
    path.parent.unlink()
    recorder.close()
    *waited, warning = stored(path)
    assert [record.time_ns - BEGAN for record in waited] == list(range(100))
    assert isinstance(warning, PlatformRecord) and warning.level == "WARN"
    assert warning.text.startswith("900 records were lost")


def test_full_disk_warns_once_and_loses_nothing(path: Path, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False, timeout=150
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert len(process.stdout.splitlines()) == 1 and "cannot write the timeline" in process.stdout
    assert [record.time_ns for record in stored(path)] == list(range(601))


def test_append_takes_microseconds(path: Path, reported: ReportedErrors) -> None:
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported)
    began = time.thread_time()
    for _ in range(20_000):
        timeline.append(REQUEST)
    cpu_seconds = time.thread_time() - began
    recorder.close()
    assert cpu_seconds / 20_000 < 100e-6
    assert len(stored(path)) == 20_000


def test_record_just_before_close_is_written(path: Path) -> None:
    timeline = TimelineBus()

    class Closed(TimelineRecorder):
        """Gets a record and is closed just after it has written all others."""

        closing: threading.Thread | None = None

        def _next_batch(self) -> list[Record | Recording]:
            batch = super()._next_batch()
            if not batch and self.closing is None:
                timeline.append(REQUEST)
                closing = threading.Thread(target=self.close)
                closing.start()
                until(lambda: self._runs._closed)
                self.closing = closing
            return batch

    recorder = Closed(path, timeline, ReportedErrors())
    timeline.append(LINE)
    until(lambda: recorder.closing is not None)
    assert recorder.closing is not None
    recorder.closing.join()
    assert stored(path) == [LINE, REQUEST]


def test_idle_file_is_closed_and_opened_again(
    path: Path, reported: ReportedErrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.timeline.recorder.IDLE_SECONDS", 0.05)
    timeline = TimelineBus()
    recorder = TimelineRecorder(path, timeline, reported, interval=0.01)
    for expected in ([LINE], [LINE, LINE]):
        timeline.append(LINE)
        until(lambda: path.exists() and stored(path) == expected)  # noqa: B023
        until(lambda: recorder._file.current is None)
    recorder.close()
