"""Logs of a service. Following survives restarts of the service, without duplicates."""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.timeline.json_format import from_json
from engine.timeline.stored_record import StoredRecord, encode, searchable
from svc_tui.client import Unreachable
from svc_tui.client.credentials import Credentials, open_client
from svc_tui.terminal import stderr, stdout

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
