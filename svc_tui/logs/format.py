"""How `svc logs` shows the timeline to people: one line a record. Owns the layout of the lines."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import date, datetime

from engine.timeline.record import Record, RequestRecord
from svc_tui.dev.request_log import badge, clock, format_text, request_line
from svc_tui.terminal.stdout import Styled

HELD = 1000
"""How many requests wait at most for the span that began them."""


class LogFormatter:
    """Turns entries into lines: one for each record, and one for a request with all its spans."""

    def __init__(self, *, dated: bool, apart: bool, today: Callable[[], date] = date.today) -> None:
        """`dated` writes the date into every line; else a line of its own tells of another day than today.

        `apart` gives every span a line of its own, for filters that may leave out others of the request.
        """
        self._dated = dated
        self._apart = apart
        self._day = None if dated else today()
        self._spans: OrderedDict[str, list[RequestRecord]] = OrderedDict()

    def lines(self, record: Record) -> Iterator[Styled]:
        """Yield the lines of the next record; a span below another waits for the request's own."""
        if not isinstance(record, RequestRecord):
            yield from self._at(record.time_ns, lambda when: _said(record, when))
            return
        spans = self._spans.pop(record.request_id, [])
        spans.append(record)
        if record.root or self._apart:
            yield from self._request(spans)
            return
        self._spans[record.request_id] = spans
        if len(self._spans) > HELD:
            yield from self._request(self._spans.popitem(last=False)[1])

    def flush(self) -> Iterator[Styled]:
        """Yield the lines of requests whose beginning is not to be seen."""
        while self._spans:
            yield from self._request(self._spans.popitem(last=False)[1])

    def _request(self, spans: list[RequestRecord]) -> Iterator[Styled]:
        ended = spans[-1].time_ns + spans[-1].wall_ns
        return self._at(ended, lambda when: request_line(spans, when))

    def _at(self, time_ns: int, line: Callable[[str], Styled]) -> Iterator[Styled]:
        """Yield a line with its time, and before it the day where that is another than in the line before."""
        day = datetime.fromtimestamp(time_ns // 1_000_000_000).date()
        if self._dated:
            yield line(f"{day} {clock(time_ns)}")
            return
        if day != self._day:
            self._day = day
            yield [(f"{day:%A} {day}", "dim")]
        yield line(clock(time_ns))


def _said(record: Record, when: str) -> Styled:
    assert not isinstance(record, RequestRecord)
    line: Styled = [(f"{when} ", "dim"), badge(record)]
    if record.resource:
        line.append((f"{record.resource}  ", "cyan"))
    line += format_text(record)
    if record.request_id:
        line.append((f"  {record.request_id}", "dim"))
    return line
