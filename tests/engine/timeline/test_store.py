import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import get_args

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.door import Severity
from engine.timeline.database import BOUNDS, CorruptTimeline, NewerTimeline, TimelineError, timeline_path
from engine.timeline.query import RecordFilter, TimelineReader
from engine.timeline.record import (
    MAX_TEXT_CHARS,
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    document,
    encode,
)
from engine.timeline.recorder import Retention, TimelineStore
from tests.engine.timeline.records import BEGAN, LINE, PLATFORM, REQUEST, SECOND, STRUCTURED, line, record_of
from tests.support.examples import examples

ALL = RecordFilter()
APPEND_FOREVER = """
import sys
from pathlib import Path
from engine.timeline.record import LineRecord
from engine.timeline.recorder import TimelineStore
store = TimelineStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.append([LineRecord(number, sys.argv[3], "web", "stdout", str(i)) for i in range(20)], number)
    if number == 0:
        print("begun", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path / "project ü")


def written(path: Path, *records: Record, now_ns: int = BEGAN, retention: Retention | None = None) -> None:
    store = TimelineStore(path, retention)
    store.append(records, now_ns)
    store.trim(now_ns)
    store.close()


def stored(path: Path) -> list[Record]:
    reader = TimelineReader(path)
    result = [record_of(entry) for entry in reader.tail(1 << 40, ALL)]
    reader.close()
    return result


def appending(path: Path, times: int, who: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPEND_FOREVER, str(path), str(times), who], stdout=subprocess.PIPE, text=True
    )


def test_every_record_kind_round_trips(path: Path) -> None:
    records = [
        REQUEST,
        replace(REQUEST, peak_memory=None, root=False, code="x", detail="y"),
        STRUCTURED,
        LINE,
    ]
    records += [
        PLATFORM,
        replace(LINE, stream="stderr"),
        replace(STRUCTURED, attributes={}, severity="FATAL"),
    ]
    written(path, *records)
    assert stored(path) == records


texts = st.text(max_size=40)
numbers = st.integers(0, (1 << 63) - 1)
severities = st.sampled_from(get_args(Severity))
anything = st.one_of(
    st.builds(LineRecord, numbers, texts, texts, st.sampled_from(["stdout", "stderr"]), texts),
    st.builds(PlatformRecord, numbers, texts, severities, texts, texts),
    st.builds(
        StructuredRecord,
        time_ns=numbers,
        request_id=texts,
        trace_id=texts,
        span_id=texts,
        resource=texts,
        severity=severities,
        body=texts,
        attributes=st.dictionaries(texts, texts, max_size=5),
    ),
    st.builds(
        RequestRecord,
        time_ns=numbers,
        request_id=texts,
        trace_id=texts,
        span_id=texts,
        parent=texts,
        resource=texts,
        method=texts,
        target=texts,
        status=st.integers(100, 999),
        code=texts,
        detail=texts,
        wall_ns=numbers,
        compute_ns=numbers,
        peak_memory=st.none() | numbers,
        bytes_in=numbers,
        bytes_out=numbers,
        root=st.booleans(),
    ),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60)
)
@given(st.lists(anything, max_size=150))
def test_arbitrary_records_round_trip(path: Path, records: list[Record]) -> None:
    path.unlink(missing_ok=True)
    written(path, *records)
    assert stored(path) == records


@pytest.mark.parametrize(
    "text", ["a\0b", "\x1b[2J\x9b", "\u202e", "日本語 🏴‍☠️", "\r\n", "x" * MAX_TEXT_CHARS]
)
def test_unusual_texts_round_trip(path: Path, text: str) -> None:
    written(path, replace(LINE, text=text), replace(STRUCTURED, body=text, attributes={text[:10]: text[:10]}))
    assert [getattr(record, "text", None) or record.body for record in stored(path)] == [text, text]  # type: ignore[union-attr]


def test_unstorable_text_is_adjusted() -> None:
    half = replace(STRUCTURED, body="\ud800a", attributes={"\udfff": "\ud800"}, time_ns=1 << 64)
    record = record_of(document(1, encode(half)))
    assert isinstance(record, StructuredRecord)
    assert (record.body, record.attributes, record.time_ns) == ("?a", {"?": "?"}, (1 << 63) - 1)
    long = document(1, encode(replace(LINE, text="é" * 3 * MAX_TEXT_CHARS)))
    assert long["body"] == "é" * MAX_TEXT_CHARS + "…"
    many = document(1, encode(replace(STRUCTURED, attributes={str(i): "x" * 1000 for i in range(100)})))
    assert many["attributes"]["…"] == "35 more" and len(many["attributes"]) == 66


def test_cursors_are_contiguous_across_processes(path: Path) -> None:
    for _ in range(3):
        written(path, *map(line, range(73)))
    reader = TimelineReader(path)
    cursors = [entry["cursor"] for entry in reader.tail(1000, ALL)]
    first, last = reader.bounds()
    assert cursors == list(range(first, last + 1)) and len(cursors) == 219
    reader.close()


def test_cursors_of_recreated_file_exceed_old_ones(path: Path) -> None:
    written(path, LINE, LINE)
    reader = TimelineReader(path)
    last = reader.bounds()[1]
    reader.close()
    path.unlink()
    written(path, LINE)
    reader = TimelineReader(path)
    assert last < reader.bounds()[0] < 1 << 53
    reader.close()


def test_concurrent_writers_lose_nothing_and_preserve_order(path: Path) -> None:
    others = [appending(path, 30, who) for who in "abc"]
    assert [other.wait(100) for other in others] == [0, 0, 0]
    for other in others:
        assert other.stdout is not None
        other.stdout.close()
    result = stored(path)
    for who in "abc":
        of = [(record.time_ns, record.text) for record in result if record.request_id == who]  # type: ignore[union-attr]
        assert of == [(number, str(i)) for number in range(30) for i in range(20)]


def test_concurrent_creation_succeeds_for_all(tmp_path: Path) -> None:
    for round_ in range(10):
        path = timeline_path(tmp_path / str(round_))
        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(written, path, LINE) for _ in range(6)]:
                done.result()
        assert stored(path) == [LINE] * 6


def test_killed_writer_leaves_complete_batches(path: Path) -> None:
    for who in "abc":
        other = appending(path, 1 << 30, who)
        assert other.stdout is not None and other.stdout.readline() == "begun\n"
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        other.stdout.close()
    counts = {who: sum(record.request_id == who for record in stored(path)) for who in "abc"}
    assert all(count and count % 20 == 0 for count in counts.values())
    written(path, LINE)


def test_trim_removes_old_records_except_last(path: Path) -> None:
    retention = Retention(max_age_seconds=60)
    written(path, *map(line, range(25_000)), now_ns=BEGAN, retention=retention)
    written(path, line(1), now_ns=BEGAN + 60 * SECOND, retention=retention)
    assert len(stored(path)) == 25_001
    written(path, line(2), now_ns=BEGAN + 61 * SECOND, retention=retention)
    assert stored(path) == [line(1), line(2)]
    written(path, now_ns=BEGAN + 999 * SECOND, retention=retention)
    assert stored(path) == [line(2)]


def test_trim_ignores_timestamps_of_guests(path: Path) -> None:
    retention = Retention(max_age_seconds=60)
    written(
        path,
        replace(STRUCTURED, time_ns=(1 << 64) - 1),
        replace(STRUCTURED, time_ns=0),
        LINE,
        retention=retention,
    )
    assert len(stored(path)) == 3
    written(path, line(1), now_ns=BEGAN + 61 * SECOND, retention=retention)
    assert stored(path) == [line(1)]


def test_trim_limits_file_size_and_retains_newest(path: Path) -> None:
    store, most = TimelineStore(path, Retention(max_bytes=1 << 20)), 0
    for batch in range(60):
        store.append([replace(line(batch * 100 + i), text=f"{i}" * 1000) for i in range(100)], BEGAN)
        store.trim(BEGAN)
        most = max(most, path.stat().st_size)
    store.close()
    result = stored(path)
    assert result[-1].time_ns == BEGAN + 5999 and 200 < len(result) < 1000
    assert most < 2 << 20


def test_clock_going_back_preserves_order(path: Path) -> None:
    written(path, line(1), now_ns=BEGAN + 3600 * SECOND)
    written(path, line(2), now_ns=BEGAN)
    assert stored(path) == [line(1), line(2)]


def test_data_folder_is_ignored_by_git(path: Path) -> None:
    written(path, LINE)
    root = path.parents[1]
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    process = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, check=True)
    assert process.stdout == b""


def test_foreign_file_raises(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 100)
    for opening in (TimelineStore, TimelineReader):
        with pytest.raises(CorruptTimeline, match=r"timeline\.db"):
            opening(path)


def test_file_of_newer_svc_stays_unchanged(path: Path) -> None:
    written(path, LINE)
    database = apsw.Connection(str(path))
    database.execute("pragma user_version = 99")
    database.close()
    for opening in (TimelineStore, TimelineReader):
        with pytest.raises(NewerTimeline, match="newer svc"):
            opening(path)


def test_uncreatable_folder_raises(tmp_path: Path) -> None:
    (tmp_path / ".svc").write_text("in the way")
    with pytest.raises(TimelineError, match="cannot write"):
        TimelineStore(timeline_path(tmp_path))


def test_reading_creates_no_file(path: Path) -> None:
    with pytest.raises(TimelineError):
        TimelineReader(path)
    assert not path.exists()


def test_bounds_query_does_not_scan(path: Path) -> None:
    written(path, *map(line, range(20)))
    database = apsw.Connection(str(path))
    steps = database.execute(f"explain query plan {BOUNDS}").fetchall()
    database.close()
    assert [step for *_, step in steps if step.startswith("SCAN record")] == []
    assert [step for *_, step in steps if step.startswith("SEARCH record")] != []


def test_unreadable_file_raises_read_error(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(TimelineError, match="cannot read"):
        TimelineReader(path)
