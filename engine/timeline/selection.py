"""What there is of the timeline when one asks. Owns which records `since`, `until`, `after` and `tail` leave.

Does not wait for more: `follow.py` goes on where this ends.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.timeline.query import RecordFilter, RecordPage, TimelineReader, open_reader


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Which part of the timeline is wanted: that for which all that is given holds.

    `since_ns`: recorded at that time (Unix epoch) or later; `after`: beyond that cursor; `tail`: the last so
    many of those that pass the filter. `until_ns`: recorded before that time.
    """

    since_ns: int | None = None
    after: int | None = None
    tail: int | None = None
    until_ns: int | None = None


def select(path: Path, wanted: RecordFilter, stretch: RecordRange) -> Generator[RecordPage]:
    """Yield pages, one at least, of what is wanted, the oldest first. Raises `TimelineError`.

    `upto` of the last page is where a follower begins.
    """
    reader = open_reader(path)
    if reader is None:
        yield RecordPage([], stretch.after or 0)
        return
    try:
        yield from _pages(reader, wanted, stretch)
    finally:
        reader.close()


def _pages(reader: TimelineReader, wanted: RecordFilter, stretch: RecordRange) -> Iterator[RecordPage]:
    begin, end = stretch.after or 0, reader.bounds()[1]
    last = end if stretch.until_ns is None else min(end, reader.cursor_before(stretch.until_ns))
    if stretch.since_ns is not None:
        begin = max(begin, reader.cursor_before(stretch.since_ns))
    if stretch.tail is not None:
        missed = reader.missed(begin)
        found = reader.tail(stretch.tail, wanted, after=begin, upto=last)
        yield RecordPage(found, max(begin, last), missed)
        return
    page = reader.after(begin, wanted)
    yield _before(last, page) if stretch.until_ns is not None else page
    while page.upto < last:
        page = reader.after(page.upto, wanted)
        yield _before(last, page) if stretch.until_ns is not None else page


def _before(last: int, page: RecordPage) -> RecordPage:
    return replace(page, entries=[entry for entry in page.entries if entry.cursor <= last])
