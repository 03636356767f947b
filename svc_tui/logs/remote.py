"""Logs of a service, and their lines: one per record, and one per request with all its spans.

Following survives restarts of the service, without duplicates.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from engine.timeline.json_format import from_json
from engine.timeline.record import Record, RequestRecord
from engine.timeline.stored_record import StoredRecord, encode, searchable
from svc_tui.client import Unreachable
from svc_tui.client.credentials import Credentials, open_client
from svc_tui.dev.request_log import record_line, request_line, stderr_text
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.units import clock

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A selection of records: the service applies `filters`, and `tail` unless there is a `pattern`."""

    filters: Mapping[str, Any] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None
    tail: int | None = None
    follow: bool = False


class RemoteLogs:
    """The log records of one project."""

    def __init__(
        self,
        login: Credentials,
        project: str,
        query: LogQuery,
        show: Callable[[Sequence[StoredRecord]], None],
        on_dropped: Callable[[int], None],
    ) -> None:
        self._login = login
        self._path = f"/v1/projects/{project}/logs"
        self._query = query
        self._show = show
        self._on_dropped = on_dropped
        self._position: int | None = None
        self._disconnected = False

    def run(self) -> None:
        """Show the recorded entries and, when following, new ones until the reader closes the pipe."""
        tail = self._query.tail
        if tail is not None and self._query.pattern is not None:
            matches: deque[StoredRecord] = deque(maxlen=tail)
            self._read(matches.append)
            self._show(list(matches))
            tail = None
        elif not self._query.follow:
            self._read(lambda record: self._show([record]), tail)
        if self._query.follow:
            self._follow(tail)

    def _follow(self, tail: int | None) -> None:
        while True:
            try:
                self._read(lambda record: self._show([record]), tail, follow=True)
            except Unreachable as error:
                if self._position is None:
                    raise
                if not self._disconnected:
                    stderr.warn(error.message, "svc reconnects until you press Ctrl+C.")
                self._disconnected = True
            stdout.pause(RETRY_SECONDS)

    def _read(
        self, on_record: Callable[[StoredRecord], None], tail: int | None = None, *, follow: bool = False
    ) -> None:
        params = {**self._query.filters, "tail": tail, "follow": "true" if follow else None}
        if self._position is not None:  # after a lost connection
            params |= {"since": None, "until": None, "tail": None, "after": self._position}
        with open_client(self._login) as client:
            for line in client.lines("GET", self._path, params=params):
                self._handle(line, on_record)

    def _handle(self, line: dict[str, Any], on_record: Callable[[StoredRecord], None]) -> None:
        if "dropped" in line:
            self._on_dropped(line["dropped"])
            return
        if "position" in line:
            self._position = line["position"]
            self._disconnected = False
            stdout.pause(0)  # exits once the reader has closed the pipe
            return
        record = from_json(line)
        self._position = record.cursor
        if self._query.pattern is None or self._query.pattern.search(searchable(encode(record.record))):
            on_record(record)


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
