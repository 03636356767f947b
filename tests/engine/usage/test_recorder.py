import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import SvcError
from engine.timeline.bus import TimelineBus
from engine.timeline.record import LineRecord, RequestRecord
from engine.usage.store import (
    MINUTE_NS,
    RETENTION_MINUTES,
    Aggregator,
    UsageCount,
    UsageRecorder,
    UsageStore,
    usage_path,
)
from tests.engine.timeline.records import REQUEST
from tests.support.waiting import until

BEGAN = 1_000 * MINUTE_NS
OK = replace(REQUEST, time_ns=BEGAN, parent="", target="/")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return usage_path(tmp_path)


def stored(path: Path) -> dict[tuple[int, str], UsageCount]:
    store = UsageStore(path)
    try:
        return store.read(0)
    finally:
        store.close()


def raised(error: SvcError) -> None:
    raise error


def record(path: Path, *records: RequestRecord | LineRecord) -> None:
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, now_ns=lambda: BEGAN)
    for each in records:
        timeline.append(each)
    recorder.close()


def test_request_counts_in_minute_of_its_end(path: Path) -> None:
    record(path, OK, OK, replace(OK, wall_ns=2 * MINUTE_NS), replace(OK, resource="api", peak_memory=None))
    assert stored(path) == {
        (1000, "web"): UsageCount(
            2, 0, compute_ns=4_000_000, wall_ns=10_000_000, peak_memory=65_536, bytes_in=6, bytes_out=12
        ),
        (1002, "web"): UsageCount(
            1, 0, compute_ns=2_000_000, wall_ns=2 * MINUTE_NS, peak_memory=65_536, bytes_in=3, bytes_out=6
        ),
        (1000, "api"): UsageCount(
            1, 0, compute_ns=2_000_000, wall_ns=5_000_000, peak_memory=0, bytes_in=3, bytes_out=6
        ),
    }


@pytest.mark.parametrize(
    ("status", "code", "failures"),
    [
        (200, "", 0),
        (404, "", 0),
        (503, "", 1),
        (200, "guest-failed", 1),
        (504, "run-limit", 1),
        (503, "overloaded", 1),
        (413, "body-too-large", 0),
        (499, "client-gone", 0),
        (200, "stopping", 0),
    ],
)
def test_failures_exclude_client_errors(status: int, code: str, failures: int) -> None:
    counter = Aggregator()
    counter(replace(OK, status=status, code=code))
    assert [count.failures for count in counter.take().values()] == [failures]


def test_other_records_are_not_counted(path: Path) -> None:
    record(path, replace(OK, resource=""), LineRecord(BEGAN, "id", "web", "stdout", "text"))
    assert not path.exists()


def test_recorder_writes_during_requests(path: Path) -> None:
    timeline, store = TimelineBus(), UsageStore(path)
    recorder = UsageRecorder(path, timeline, raised, interval=0.01, now_ns=lambda: BEGAN)
    timeline.append(OK)
    end = threading.Event()
    for _ in range(1000):
        if store.read(0):
            break
        end.wait(0.01)
    assert store.read(0)[1000, "web"].requests == 1
    recorder.close()
    store.close()


def test_later_counts_are_written_as_soon_as_the_first_ones(path: Path) -> None:
    """And not only when the file would be closed."""
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, interval=0.01, now_ns=lambda: BEGAN)
    for count in (1, 2, 3):
        timeline.append(OK)
        until(lambda: [each.requests for each in stored(path).values()] == [count])  # noqa: B023
    recorder.close()


def test_counts_survive_temporary_write_failure(path: Path) -> None:
    warnings: list[SvcError] = []
    warned = threading.Event()

    def warn(error: SvcError) -> None:
        warnings.append(error)
        warned.set()

    path.parent.write_text("in the way")
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, warn, interval=0.01, now_ns=lambda: BEGAN)
    timeline.append(OK)
    assert warned.wait(60)
    timeline.append(OK)
    path.parent.unlink()
    recorder.close()
    assert len(warnings) == 1
    assert stored(path)[1000, "web"].requests == 2


def test_file_that_cannot_be_written_is_closed_until_the_next_try(path: Path) -> None:
    warned, timeline = threading.Event(), TimelineBus()
    recorder = UsageRecorder(path, timeline, lambda error: warned.set(), interval=0.01, now_ns=lambda: BEGAN)
    timeline.append(OK)
    until(lambda: recorder._file.current is not None)
    blocked = path.with_name(f"{path.name}-journal")
    until(lambda: not blocked.exists())
    blocked.mkdir()
    timeline.append(OK)
    assert warned.wait(60)
    until(lambda: recorder._file.current is None)
    blocked.rmdir()
    recorder.close()
    assert stored(path)[1000, "web"].requests == 2


def test_corrupt_usage_file_is_quarantined_and_replaced(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 100)
    warnings: list[SvcError] = []
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, warnings.append, now_ns=lambda: BEGAN)
    timeline.append(OK)
    recorder.close()
    assert stored(path)[1000, "web"].requests == 1
    (quarantined,) = path.parent.glob("usage-damaged-*.db")
    assert quarantined.read_bytes() == b"not a database at all" * 100
    (warning,) = warnings
    assert str(path) in warning.message and "corrupt" in warning.message and str(quarantined) in warning.hint


def test_internally_corrupt_usage_file_is_quarantined_when_detected(path: Path) -> None:
    store = UsageStore(path)
    store.add({(minute, "web"): UsageCount(1) for minute in range(5000)})
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xee" * (path.stat().st_size - 4096))
    warnings: list[SvcError] = []
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, warnings.append, now_ns=lambda: BEGAN)
    timeline.append(OK)
    recorder.close()
    assert list(stored(path)) == [(1000, "web")]
    assert len(list(path.parent.glob("usage-damaged-*.db"))) == len(warnings) == 1


def test_recorder_recreates_deleted_folder(path: Path) -> None:
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, interval=0.01, now_ns=lambda: BEGAN)
    timeline.append(OK)
    until(lambda: path.exists() and bool(stored(path)))
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    timeline.append(OK)
    recorder.close()
    assert stored(path)[1000, "web"].requests == 1


def test_unwritten_sums_are_bounded() -> None:
    counter = Aggregator()
    counts = {(minute, "web"): UsageCount(1) for minute in range(2000)}
    for _ in range(2):
        counter.restore(counts, 10)
        counter(OK)
        counts = counter.take()
        assert list(counts) == [*((minute, "web") for minute in range(1990, 2000)), (1000, "web")]


def test_minutes_older_than_a_month_are_deleted(path: Path) -> None:
    store = UsageStore(path)
    old = 100_000
    store.add(
        {(old - RETENTION_MINUTES - 1, "web"): UsageCount(1), (old - RETENTION_MINUTES, "web"): UsageCount(1)}
    )
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, now_ns=lambda: old * MINUTE_NS)
    timeline.append(replace(OK, time_ns=old * MINUTE_NS))
    recorder.close()
    assert [minute for minute, _ in store.read(0)] == [old - RETENTION_MINUTES, old]
    store.close()


def test_counts_are_exact_with_concurrent_appends(path: Path) -> None:
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, interval=0.001, now_ns=lambda: BEGAN)

    def many() -> None:
        for _ in range(500):
            timeline.append(OK)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert sum(stored(path).values(), UsageCount()) == UsageCount(
        2000,
        0,
        compute_ns=2000 * OK.compute_ns,
        wall_ns=2000 * OK.wall_ns,
        peak_memory=65_536,
        bytes_in=2000 * 3,
        bytes_out=2000 * 6,
    )


def test_idle_file_is_closed_and_opened_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.usage.store.IDLE_SECONDS", 0.05)
    timeline = TimelineBus()
    recorder = UsageRecorder(path, timeline, raised, interval=0.01, now_ns=lambda: BEGAN)
    for count in (1, 2):
        timeline.append(OK)
        until(lambda: path.exists() and [each.requests for each in stored(path).values()] == [count])  # noqa: B023
        until(lambda: recorder._file.current is None)
    recorder.close()
