"""Rows of the timeline of a real project in development."""

import threading
from collections.abc import Iterator

import pytest

from screens.logs import records as module
from screens.logs.records import RecordSelection, RecordSource
from screens.project_client import ProjectClient
from svc_tui.client import SvcError, Unreachable
from tests.screens.dev_project import Shop
from tests.screens.logs.timelines import fill
from tests.support.waiting import until

pytestmark = pytest.mark.slow
MANY = 120_000
"""More records than two lines of cursors cover."""
MESSAGES = RecordSelection(text="said ")
"""Matches only the records of `fill`; the engine adds others."""


@pytest.fixture
def link(shop: Shop) -> Iterator[ProjectClient]:
    link = shop.link()
    link.reconnect()
    yield link
    link.shut_down()


def start_source(link: ProjectClient, filter: RecordSelection = MESSAGES) -> RecordSource:
    failures: list[SvcError] = []
    timeline = RecordSource(link, filter, failures.append)
    timeline.start()
    return timeline


def ordered(timeline: RecordSource) -> bool:
    """Return whether each record is a row exactly once, in order."""
    cursors = [timeline.cursor(index) for index in range(timeline.count())]
    return cursors == sorted(set(cursors))


def settled(timeline: RecordSource) -> RecordSource:
    until(lambda: bool(timeline.merge_history()) or timeline.complete)
    return timeline


def test_newest_records_load_before_history(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = start_source(link)
    until(lambda: timeline.ready)
    at_first = timeline.count()
    assert 0 < at_first < MANY
    last = timeline.cursor(at_first - 1)
    added = 0
    while not timeline.complete:
        added += timeline.merge_history()
    assert added == MANY - at_first
    assert timeline.cursor(at_first - 1 + added) == last
    assert ordered(timeline)
    timeline.stop()


def test_records_added_while_loading_appear_once(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    writer = threading.Thread(target=fill, args=(shop.root, 20_000, MANY))
    timeline = start_source(link)
    writer.start()
    settled(timeline)
    writer.join()
    until(lambda: timeline.count() == MANY + 20_000)
    assert ordered(timeline)
    timeline.stop()


def test_rare_match_is_found_in_old_records(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = settled(start_source(link, RecordSelection(text="said 17")))
    rows = timeline.window(0, 1)
    assert rows[0].cells[4][0] == ("said 17", "")
    timeline.stop()


def test_empty_timeline_is_complete_at_once_and_grows(shop: Shop, link: ProjectClient) -> None:
    timeline = settled(start_source(link))
    count = timeline.count()
    fill(shop.root, 3)
    until(lambda: timeline.count() == count + 3)
    timeline.stop()


def test_interrupted_stream_resumes_at_position(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = start_source(link)
    until(lambda: timeline.ready)
    timeline.stop()
    fill(shop.root, 1000, MANY)
    timeline.start()
    settled(timeline)
    until(lambda: timeline.count() == MANY + 1000)
    assert ordered(timeline)
    timeline.stop()


def test_rows_are_limited_to_maximum(
    shop: Shop, link: ProjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 1000)
    timeline = settled(start_source(link))
    count = timeline.count()
    fill(shop.root, 1001 - count)
    until(lambda: timeline.count() == 1001)
    last = timeline.cursor(1000)
    assert timeline.merge_history() == -500
    assert timeline.count() == 501 and timeline.cursor(500) == last
    timeline.stop()


def test_pause_preserves_rows_and_limits_new_ones(
    shop: Shop, link: ProjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 1000)
    timeline = settled(start_source(link))
    fill(shop.root, 100)
    until(lambda: timeline.count() >= 100)
    count = timeline.count()
    timeline.pause(True)
    fill(shop.root, 1001, 100)
    until(lambda: timeline.waiting() == 1001)
    assert timeline.merge_history() == 0
    assert timeline.count() == count and timeline.waiting() == 501 and timeline.dropped == 500
    timeline.stop()


def test_late_failure_of_old_connection_leaves_current_one(link: ProjectClient) -> None:
    stream = link.lines("GET", "/logs/cursors", params={"follow": "true"})
    next(stream)
    link.reconnect()
    with pytest.raises(Unreachable):
        list(stream)
    assert link.state == "live"
    assert link.call_sync("GET", "/logs/window", params={"n": 0})["records"] == []
