"""Logs of a service. Following survives restarts of the service, without duplicates."""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.timeline.fleet_cursor import FleetCursor
from engine.timeline.json_format import from_json, parse_utc
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


class MissingNodes:
    """Warns about the nodes of a fleet that stop answering, and notes those that answer again."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Report the changes; `nodes` are all that do not answer now."""
        warn_missing([node for node in nodes if node["node"] not in self._known])
        names = {node["node"] for node in nodes}
        for node in sorted(self._known - names):
            stderr.note(f"the node {node} answers again, or was removed")
        self._known = names


def warn_missing(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Warn about nodes of a fleet that do not answer."""
    for node in nodes:
        since = f" since {local_time(node['since'])}" if node["since"] else ""
        stderr.warn(f"the node {node['node']} {node['reason']}{since}; its data is missing")


def local_time(text: str) -> str:
    """Return the local time of day of a time in RFC 3339."""
    return datetime.fromtimestamp(parse_utc(text) // 1_000_000_000).strftime("%H:%M:%S")


class RemoteLogs:
    """The log records of one project."""

    def __init__(
        self,
        login: Credentials,
        project: str,
        query: LogQuery,
        show: Callable[[Sequence[StoredRecord]], None],
        on_dropped: Callable[[int], None],
        *,
        on_missing: Callable[[Sequence[Mapping[str, Any]]], None] | None = None,
    ) -> None:
        """`on_missing` takes the nodes of a fleet that do not answer: `node`, `since`, `reason`."""
        self._login = login
        self._path = f"/v1/projects/{project}/logs"
        self._query = query
        self._show = show
        self._on_dropped, self._on_missing = on_dropped, on_missing or MissingNodes()
        self._missing: Sequence[Mapping[str, Any]] = ()
        self._position: FleetCursor | int | None = None
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
            params |= {"since": None, "until": None, "tail": None, "after": str(self._position)}
        with open_client(self._login) as client:
            for line in client.lines("GET", self._path, params=params):
                self._handle(line, on_record)

    def _handle(self, line: dict[str, Any], on_record: Callable[[StoredRecord], None]) -> None:
        if "dropped" in line:
            self._on_dropped(line["dropped"])
            return
        if "missing" in line:
            if [node["node"] for node in line["missing"]] != [node["node"] for node in self._missing]:
                self._on_missing(line["missing"])  # It is sent again after a lost connection.
            self._missing = line["missing"]
            return
        if "position" in line:
            position = line["position"]
            self._position = FleetCursor.parse(position) if isinstance(position, str) else position
            self._disconnected = False
            stdout.pause(0)  # exits once the reader has closed the pipe
            return
        record = from_json(line)
        if isinstance(self._position, FleetCursor):
            self._position = self._position.after(record.node, record.cursor)
        elif not record.node:
            self._position = record.cursor
        if self._query.pattern is None or self._query.pattern.search(searchable(encode(record.record))):
            on_record(record)
