"""Selection of existing records by `since`, `until`, `after` and `tail`.

It does not wait for new records: `follow.py` continues at its end.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from engine.timeline.query import RecordPage, TimelineReader, open_reader
from engine.timeline.record_filter import RecordFilter

_TAIL_RECORDS = 64
"""Number of records in a page of a tail: their texts have at most 8 MiB."""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """A part of the timeline; all conditions that are set apply.

    `since_ns`: recorded at that time (Unix epoch) or later; `until_ns`: recorded before that time; `after`:
    beyond that cursor; `tail`: the last matching records, at most this many.
    """

    since_ns: int | None = None
    after: int | None = None
    tail: int | None = None
    until_ns: int | None = None


def select(path: Path, record_filter: RecordFilter, record_range: RecordRange) -> Generator[RecordPage]:
    """Yield pages of matching records, oldest first, at least one page. Raises `TimelineError`.

    A follower starts at `position` of the last page.
    """
    reader = open_reader(path)
    if reader is None:
        yield RecordPage([], record_range.after or 0)
        return
    times = replace(record_filter, since_ns=record_range.since_ns, until_ns=record_range.until_ns)
    with closing(reader):
        yield from _pages(reader, times, record_range)


def _pages(
    reader: TimelineReader, record_filter: RecordFilter, record_range: RecordRange
) -> Iterator[RecordPage]:
    begin, end = record_range.after or 0, reader.bounds()[1]
    last = end if record_range.until_ns is None else min(end, reader.last_before(record_range.until_ns))
    if record_range.since_ns is not None:
        begin = max(begin, reader.cursor_before(record_range.since_ns))
    if record_range.tail is not None:
        dropped = reader.count_dropped(begin)
        cursors = reader.tail_cursors(
            record_range.tail, record_filter, after=begin, last=last, whole_requests=True
        )
        position = max(begin, last)
        for start in range(0, len(cursors), _TAIL_RECORDS):
            records = reader.by_cursors(cursors[start : start + _TAIL_RECORDS])
            yield RecordPage(records, position, dropped)
            dropped = 0
        if not cursors:
            yield RecordPage([], position, dropped)
        return
    page = reader.after(begin, record_filter)
    yield _before(last, page) if record_range.until_ns is not None else page
    while page.position < last:
        page = reader.after(page.position, record_filter)
        yield _before(last, page) if record_range.until_ns is not None else page


def _before(last: int, page: RecordPage) -> RecordPage:
    return replace(page, entries=[entry for entry in page.entries if entry.cursor <= last])
