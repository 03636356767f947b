"""The lines of `svc logs`: one per record, and one per request with all its spans."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import date, datetime

from engine.timeline.record import Record, RequestRecord
from svc_tui.dev.request_log import record_line, request_line, stderr_text
from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.units import clock

MAX_PENDING = 1000
"""Requests whose spans are held until their root span is read."""
MAX_STDERR = 4096
"""Maximum characters of stderr that are remembered for a request."""


class LogFormatter:
    """Formats records as lines."""

    def __init__(
        self,
        *,
        dated: bool,
        has_root: Callable[[RequestRecord], bool] = lambda span: True,
        today: Callable[[], date] = date.today,
    ) -> None:
        """`dated` writes the date into every line; otherwise each new day gets a heading.

        `has_root` returns whether the filter selects the root span of a request, too. A span without it gets
        its own line.
        """
        self._dated = dated
        self._has_root = has_root
        self._day = None if dated else today()
        self._spans: OrderedDict[str, list[RequestRecord]] = OrderedDict()
        self._stderr: OrderedDict[str, str] = OrderedDict()

    def lines(self, record: Record) -> Iterator[Styled]:
        """Yield the lines for the next record; inner spans wait for the root span of their request."""
        if text := stderr_text(record):
            self._remember(record.request_id, text)
        if not isinstance(record, RequestRecord):
            yield from self._at(record.time_ns, lambda time: record_line(record, time, record.request_id))
            return
        spans = self._spans.pop(record.request_id, [])
        spans.append(record)
        if record.root or not self._has_root(record):
            yield from self._request(spans)
            return
        self._spans[record.request_id] = spans
        if len(self._spans) > MAX_PENDING:
            yield from self._request(self._spans.popitem(last=False)[1])

    def flush(self) -> Iterator[Styled]:
        """Yield the lines of requests whose root span was not read."""
        while self._spans:
            yield from self._request(self._spans.popitem(last=False)[1])

    def _request(self, spans: list[RequestRecord]) -> Iterator[Styled]:
        end_ns = spans[-1].time_ns + spans[-1].wall_ns
        stderr = self._stderr.pop(spans[-1].request_id, "")
        return self._at(end_ns, lambda time: request_line(spans, time, stderr))

    def _remember(self, request_id: str, text: str) -> None:
        """Remember the stderr of a request, whose error is not repeated."""
        self._stderr[request_id] = (self._stderr.get(request_id, "") + text)[-MAX_STDERR:]
        if len(self._stderr) > MAX_PENDING:
            self._stderr.popitem(last=False)

    def _at(self, time_ns: int, line: Callable[[str], Styled]) -> Iterator[Styled]:
        """Yield a line with its time, after a heading if its day differs from the previous line's."""
        day = datetime.fromtimestamp(time_ns // 1_000_000_000).date()
        if self._dated:
            yield line(f"{day} {clock(time_ns)}")
            return
        if day != self._day:
            self._day = day
            yield [(f"{day:%A} {day}", "dim")]
        yield line(clock(time_ns))
