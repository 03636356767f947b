import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from engine.files import sqlite_file
from engine.timeline import query
from engine.timeline.database import CorruptTimeline, TimelineError, timeline_path
from engine.timeline.query import PAGE_BYTES, RecordFilter, TimelineReader, select
from engine.timeline.record import Record
from engine.timeline.recorder import Retention, TimelineStore
from tests.engine.timeline.records import BEGAN, LINE, PLATFORM, REQUEST, SECOND, STRUCTURED, line, record_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path)


@pytest.fixture
def reader(path: Path) -> Iterator[TimelineReader]:
    store = TimelineStore(path)
    records = [
        REQUEST,
        replace(REQUEST, resource="api", status=500, code="guest-failed", detail="boom: no such row"),
        replace(REQUEST, request_id="02id", status=404, target="/missing"),
        replace(REQUEST, status=499, code="client-gone"),
        STRUCTURED,
        replace(STRUCTURED, severity="DEBUG", body="row", attributes={"id": "7"}),
        LINE,
        replace(LINE, stream="stderr", request_id="02id", text="Panic"),
        PLATFORM,
        replace(PLATFORM, level="ERROR", text="it does not build"),
    ]
    store.append(records, BEGAN)
    store.close()
    reading = TimelineReader(path)
    yield reading
    reading.close()


def found(reader: TimelineReader, filter: RecordFilter) -> list[Record]:
    forwards = reader.after(0, filter).entries
    assert reader.tail(1000, filter) == forwards
    return [record_of(entry) for entry in forwards]


def test_filter_by_resource(reader: TimelineReader) -> None:
    assert {record.resource for record in found(reader, RecordFilter(resource="api"))} == {"api"}
    assert len(found(reader, RecordFilter(resource="api"))) == 3
    assert found(reader, RecordFilter(resource="ap")) == []
    assert reader.resources() == {"api", "web"}


def test_filter_by_request_includes_its_lines(reader: TimelineReader) -> None:
    assert len(found(reader, RecordFilter(request_id="02id"))) == 2
    assert found(reader, RecordFilter(request_id="' or 1=1 --")) == []
    assert found(reader, RecordFilter(request_id="")) == []


@pytest.mark.parametrize(
    ("least", "count"), [("TRACE", 10), ("DEBUG", 10), ("INFO", 9), ("WARN", 4), ("ERROR", 2), ("FATAL", 0)]
)
def test_filter_by_minimum_level(reader: TimelineReader, least: str, count: int) -> None:
    assert len(found(reader, RecordFilter(min_level=least))) == count  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("missing", 1),
        ("GET /a", 3),
        ("no such row", 1),
        (r"id=\d", 1),
        ("(?i)panic", 1),
        ("^low", 1),
        ("$^", 0),
    ],
)
def test_filter_by_pattern_searches_text(reader: TimelineReader, pattern: str, count: int) -> None:
    assert len(found(reader, RecordFilter(pattern=re.compile(pattern)))) == count


def test_filter_conditions_are_combined(reader: TimelineReader) -> None:
    record_filter = RecordFilter("web", "01id", min_level="WARN", pattern=re.compile("low"))
    assert found(reader, record_filter) == [STRUCTURED]


@pytest.fixture
def many(path: Path) -> Iterator[TimelineReader]:
    """5000 records, ten a second, every tenth of another resource."""
    store = TimelineStore(path)
    for second in range(500):
        tens = [line(second * 10 + i, "api" if i == 0 else "web") for i in range(10)]
        store.append(tens, BEGAN + second * SECOND)
    store.close()
    reading = TimelineReader(path)
    yield reading
    reading.close()


def test_pages_continue_at_last_cursor(many: TimelineReader) -> None:
    for filter, count in (
        (RecordFilter(), 5000),
        (RecordFilter(resource="api"), 500),
        (RecordFilter(pattern=re.compile("^..0$")), 90),
    ):
        cursor, texts = 0, []
        while cursor < many.bounds()[1]:
            page = many.after(cursor, filter, limit=70)
            assert page.position > cursor
            texts += [record_of(entry).time_ns for entry in page.entries]
            cursor = page.position
        assert len(texts) == count and texts == sorted(texts)


def test_tail_finds_distant_matches(many: TimelineReader) -> None:
    last = [
        record_of(entry).time_ns - BEGAN
        for entry in many.tail(3, RecordFilter(pattern=re.compile("^1?..0$")))
    ]
    assert last == [1970, 1980, 1990]
    assert many.tail(0, RecordFilter()) == []
    first, end = many.bounds()
    assert [entry["cursor"] for entry in many.tail(9, RecordFilter(), after=end - 5, last=end - 1)] == [
        *range(end - 4, end)
    ]
    assert len(many.tail(10_000, RecordFilter(), after=first)) == 4999


@pytest.mark.parametrize("second", [0, 1, 250, 498, 499])
def test_cursor_before_finds_time(many: TimelineReader, second: int) -> None:
    page = many.after(many.cursor_before(BEGAN + second * SECOND), RecordFilter(), limit=10)
    assert record_of(page.entries[0]) == line(second * 10, "api")


def test_cursor_before_clamps_to_bounds(many: TimelineReader) -> None:
    first, last = many.bounds()
    assert many.cursor_before(0) == first - 1
    assert many.cursor_before(BEGAN + 500 * SECOND) == last


def test_page_counts_dropped_records(path: Path, many: TimelineReader) -> None:
    first = many.bounds()[0]
    store = TimelineStore(path, Retention(max_age_seconds=100))
    store.trim(BEGAN + 500 * SECOND)
    store.close()
    assert many.bounds()[0] == first + 4000
    assert many.after(first + 9, RecordFilter()).dropped == 3990
    assert many.after(first + 3999, RecordFilter()).dropped == 0
    assert many.after(0, RecordFilter()).dropped == 0
    assert many.after(0, RecordFilter()).entries[0]["cursor"] == first + 4000


def test_tail_counts_requests_and_includes_all_their_spans(path: Path) -> None:
    store = TimelineStore(path)
    for number in range(3):
        inner = replace(REQUEST, request_id=f"{number}", resource="api", root=False)
        other = replace(REQUEST, request_id=f"other{number}")
        store.append([inner, other, replace(REQUEST, request_id=f"{number}")], BEGAN)
    store.close()
    reader = TimelineReader(path)
    last = reader.by_cursors(reader.tail_cursors(2, RecordFilter(), whole_requests=True))
    assert [(entry["request_id"], entry["resource"]) for entry in last] == [
        ("2", "api"),
        ("other2", "web"),
        ("2", "web"),
    ]
    only_api = reader.by_cursors(reader.tail_cursors(2, RecordFilter(resource="api"), whole_requests=True))
    assert [entry["request_id"] for entry in only_api] == ["1", "2"]
    reader.close()


@pytest.fixture
def large(path: Path) -> Iterator[TimelineReader]:
    """200 records of 64 KiB each."""
    store = TimelineStore(path)
    store.append([replace(line(number, "web"), text="a" * 65_536) for number in range(200)], BEGAN)
    store.close()
    reading = TimelineReader(path)
    yield reading
    reading.close()


def test_pages_of_large_records_are_bounded_by_bytes(path: Path, large: TimelineReader) -> None:
    for tail in (None, 100_000):
        pages = list(select(path, RecordFilter(), tail=tail))
        cursors = [entry["cursor"] for page in pages for entry in page.entries]
        assert len(cursors) == 200 and cursors == sorted(cursors)
        assert max(len(page.entries) for page in pages) <= PAGE_BYTES // 65_536


def test_windows_of_large_records_have_the_nearest_ones(large: TimelineReader) -> None:
    first, last = large.bounds()
    size = 10 * 65_536
    assert [each["cursor"] for each in large.tail(100, RecordFilter(), max_bytes=size)] == [
        *range(last - 9, last + 1)
    ]
    for records in (
        large.after(first - 1, RecordFilter(), 100, size).entries,
        large.by_cursors(range(first, last), size),
    ):
        assert [each["cursor"] for each in records] == [*range(first, first + 10)]


def test_search_above_time_limit_is_stopped(large: TimelineReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "READ_SECONDS", 0.05)
    monkeypatch.setattr(sqlite_file, "_STEPS_PER_CHECK", 10)
    # Each record takes SQLite a thousand times as long as a search for one letter.
    endless = RecordFilter(text="a" * 999 + "b")
    first, _ = large.bounds()
    for search in (
        lambda: large.tail(1, endless),
        lambda: large.after(0, endless),
        lambda: large.scan_cursors(first - 1, endless, 1000),
    ):
        with pytest.raises(TimelineError) as exc_info:
            search()
        assert exc_info.value.code == "timeout" and "since" in exc_info.value.hint
    assert len(large.tail(3, RecordFilter())) == 3


def test_corrupt_values_of_a_record_do_not_hide_others(path: Path) -> None:
    store = TimelineStore(path)
    store.append([line(number, "web") for number in range(4)], BEGAN)
    store.close()
    with closing(apsw.Connection(str(path))) as damaged:
        damaged.execute("update record set level = 77 where cursor = (select min(cursor) from record)")
        damaged.execute(
            "update record set kind = 'structured', attributes = '{' "
            "where cursor = (select max(cursor) from record)"
        )
    with closing(TimelineReader(path)) as reader:
        texts = [each["body"] for each in reader.tail(10, RecordFilter())]
        assert texts[0] == texts[3] == "this record is corrupt" and "corrupt" not in texts[1] + texts[2]
    with closing(apsw.Connection(str(path))) as damaged:
        damaged.execute("update record set body = cast(x'ff' as text)")
    with closing(TimelineReader(path)) as reader, pytest.raises(CorruptTimeline):
        reader.tail(10, RecordFilter())
