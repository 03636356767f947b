from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.timeline.database import timeline_path
from engine.timeline.query import PAGE_RECORDS, RecordFilter, RecordPage, TimelineReader, select
from engine.timeline.recorder import Retention, TimelineStore
from tests.engine.timeline.records import BEGAN, SECOND, line, record_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """2500 records, ten a second, every tenth of another resource."""
    path = timeline_path(tmp_path)
    store = TimelineStore(path)
    for second in range(250):
        tens = [line(second * 10 + i, "api" if i == 0 else "web") for i in range(10)]
        store.append(tens, BEGAN + second * SECOND)
    store.close()
    return path


def ends(path: Path) -> tuple[int, int]:
    reader = TimelineReader(path)
    try:
        return reader.bounds()
    finally:
        reader.close()


class Range(NamedTuple):
    """The times and cursors of a selection."""

    since_ns: int | None = None
    after: int | None = None
    tail: int | None = None
    until_ns: int | None = None


def pages(path: Path, stretch: Range, filter: RecordFilter | None = None) -> list[RecordPage]:
    times = replace(filter or RecordFilter(), since_ns=stretch.since_ns, until_ns=stretch.until_ns)
    return list(select(path, times, after=stretch.after, tail=stretch.tail))


def numbers(path: Path, stretch: Range, filter: RecordFilter | None = None) -> list[int]:
    result = [record_of(entry) for page in pages(path, stretch, filter) for entry in page.entries]
    return [record.time_ns - BEGAN for record in result]


def test_select_yields_bounded_pages(path: Path) -> None:
    result = pages(path, Range())
    assert max(len(page.entries) for page in result) == PAGE_RECORDS and result[-1].position == ends(path)[1]
    assert numbers(path, Range()) == list(range(2500))


def test_select_combines_conditions(path: Path) -> None:
    first = ends(path)[0]
    since = BEGAN + 200 * SECOND
    assert numbers(path, Range(since_ns=since)) == list(range(2000, 2500))
    assert numbers(path, Range(after=first + 2399)) == list(range(2400, 2500))
    assert numbers(path, Range(since, first + 2399)) == list(range(2400, 2500))
    assert numbers(path, Range(since, first + 9)) == list(range(2000, 2500))
    assert numbers(path, Range(since, first + 9, 2)) == [2498, 2499]
    assert numbers(path, Range(since, first + 9, 600)) == list(range(2000, 2500))
    assert numbers(path, Range(since, None, 2), RecordFilter(resource="api")) == [2480, 2490]
    assert numbers(path, Range(since_ns=BEGAN + 900 * SECOND)) == []


def test_select_until_excludes_later_records(path: Path) -> None:
    first, until = ends(path)[0], BEGAN + 210 * SECOND
    assert numbers(path, Range(until_ns=until)) == list(range(2100))
    assert numbers(path, Range(since_ns=BEGAN + 209 * SECOND, until_ns=until)) == list(range(2090, 2100))
    assert numbers(path, Range(after=first + 2097, until_ns=until)) == [2098, 2099]
    assert numbers(path, Range(tail=2, until_ns=until), RecordFilter(resource="api")) == [2080, 2090]
    assert numbers(path, Range(until_ns=BEGAN)) == []
    assert numbers(path, Range(until_ns=BEGAN + 900 * SECOND)) == list(range(2500))


@pytest.mark.parametrize("stretch", [Range(), Range(tail=3), Range(tail=0), Range(BEGAN + 900 * SECOND)])
def test_select_ends_at_follower_start(path: Path, stretch: Range) -> None:
    assert pages(path, stretch, RecordFilter(resource="none"))[-1].position == ends(path)[1]


def test_select_after_last_cursor_is_empty(path: Path) -> None:
    beyond = ends(path)[1] + 5
    for stretch in (Range(after=beyond), Range(after=beyond, tail=3)):
        (page,) = pages(path, stretch)
        assert (page.entries, page.position) == ([], beyond)


def test_select_reports_dropped_records_once(path: Path) -> None:
    first = ends(path)[0]
    store = TimelineStore(path, Retention(max_age_seconds=100))
    store.trim(BEGAN + 250 * SECOND)
    store.close()
    for stretch in (Range(after=first + 9), Range(after=first + 9, tail=1)):
        assert sum(page.dropped for page in pages(path, stretch)) == 1490
    for stretch in (Range(), Range(tail=1), Range(BEGAN + 200 * SECOND, first + 9)):
        assert sum(page.dropped for page in pages(path, stretch)) == 0


def test_select_with_cursor_of_older_file_counts_only_own_losses(path: Path) -> None:
    first = ends(path)[0]
    assert sum(page.dropped for page in pages(path, Range(after=first - 1_000_000))) == 0


def test_select_without_file_returns_given_position(tmp_path: Path) -> None:
    assert pages(timeline_path(tmp_path), Range(after=7)) == [RecordPage([], 7)]
    assert pages(timeline_path(tmp_path), Range(tail=7)) == [RecordPage([], 0)]
