"""Which records are rows, over the timeline of a real Project in development."""

import threading
from collections.abc import Iterator

import pytest

from screens.logs import record_source as module
from screens.logs.filter import Filter
from screens.logs.record_source import Timeline
from screens.project_client import ProjectClient
from svc_tui.client import SvcError, Unreachable
from tests.screens.developed import Shop
from tests.screens.logs.conftest import fill
from tests.waiting import until

pytestmark = pytest.mark.slow
MANY = 120_000
"""More than are looked at for two lines of cursors."""
SAID = Filter(text="said ")
"""What `fill` writes; a Project in development says more."""


@pytest.fixture
def link(shop: Shop) -> Iterator[ProjectClient]:
    link = shop.link()
    link.reconnect()
    yield link
    link.shut_down()


def begun(link: ProjectClient, filter: Filter = SAID) -> Timeline:
    failures: list[SvcError] = []
    timeline = Timeline(link, filter, failures.append)
    timeline.begin()
    return timeline


def ordered(timeline: Timeline) -> bool:
    """Return whether each record is a row once, in their order."""
    cursors = [timeline.cursor(index) for index in range(timeline.count())]
    return cursors == sorted(set(cursors))


def settled(timeline: Timeline) -> Timeline:
    until(lambda: bool(timeline.settle()) or timeline.whole)
    return timeline


def test_the_end_is_there_first_and_what_is_before_it_follows(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = begun(link)
    until(lambda: timeline.ready)
    at_first = timeline.count()
    assert 0 < at_first < MANY
    last = timeline.cursor(at_first - 1)
    came = 0
    while not timeline.whole:
        came += timeline.settle()
    assert came == MANY - at_first
    assert timeline.cursor(at_first - 1 + came) == last
    assert ordered(timeline)
    timeline.end()


def test_what_comes_while_the_old_is_read_is_there_once(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    writer = threading.Thread(target=fill, args=(shop.root, 20_000, MANY))
    timeline = begun(link)
    writer.start()
    settled(timeline)
    writer.join()
    until(lambda: timeline.count() == MANY + 20_000)
    assert ordered(timeline)
    timeline.end()


def test_a_filter_that_little_passes_finds_it_however_old(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = settled(begun(link, Filter(text="said 17")))
    rows = timeline.window(0, 1)
    assert rows[0].cells[3] == (("said 17", ""),)
    timeline.end()


def test_an_empty_timeline_is_whole_at_once_and_grows(shop: Shop, link: ProjectClient) -> None:
    timeline = settled(begun(link))
    there = timeline.count()
    fill(shop.root, 3)
    until(lambda: timeline.count() == there + 3)
    timeline.end()


def test_a_reading_that_was_cut_goes_on_where_it_was(shop: Shop, link: ProjectClient) -> None:
    fill(shop.root, MANY)
    timeline = begun(link)
    until(lambda: timeline.ready)
    timeline.end()
    fill(shop.root, 1000, MANY)
    timeline.begin()
    settled(timeline)
    until(lambda: timeline.count() == MANY + 1000)
    assert ordered(timeline)
    timeline.end()


def test_there_are_never_more_rows_than_there_may_be(
    shop: Shop, link: ProjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 1000)
    timeline = settled(begun(link))
    there = timeline.count()
    fill(shop.root, 1001 - there)
    until(lambda: timeline.count() == 1001)
    last = timeline.cursor(1000)
    assert timeline.settle() == -500
    assert timeline.count() == 501 and timeline.cursor(500) == last
    timeline.end()


def test_a_pause_of_any_length_keeps_what_is_seen_and_little_of_what_comes(
    shop: Shop, link: ProjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 1000)
    timeline = settled(begun(link))
    fill(shop.root, 100)
    until(lambda: timeline.count() >= 100)
    there = timeline.count()
    timeline.pause(True)
    fill(shop.root, 1001, 100)
    until(lambda: timeline.waiting() == 1001)
    assert timeline.settle() == 0
    assert timeline.count() == there and timeline.waiting() == 501 and timeline.missed == 500
    timeline.end()


def test_a_connection_of_before_that_ends_late_leaves_the_one_in_use(link: ProjectClient) -> None:
    stream = link.lines("GET", "/logs/cursors", params={"follow": "true"})
    next(stream)
    link.reconnect()
    with pytest.raises(Unreachable):
        list(stream)
    assert link.state == "live"
    assert link.call_sync("GET", "/logs/window", params={"n": 0})["records"] == []
