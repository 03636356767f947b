"""Logs of a service. Following survives restarts of the service, without duplicates."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.timeline.json_format import from_json
from engine.timeline.stored_record import StoredRecord, encode, searchable
from svc_tui.client import ApiError, Unreachable
from svc_tui.client.credentials import Credentials, open_client
from svc_tui.terminal import stderr, stdout

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A selection of records; `pattern` is matched here, the other fields by the service."""

    resource: str | None
    level: str | None
    request: str | None
    pattern: re.Pattern[str] | None
    since: float | None
    tail: int | None
    after: int | None
    follow: bool
    until: float | None = None


class RemoteLogs:
    """The log records of one project."""

    def __init__(
        self,
        login: Credentials,
        project: str,
        query: LogQuery,
        show: Callable[[Sequence[StoredRecord]], None],
        on_missed: Callable[[int], None],
    ) -> None:
        self._login = login
        self._path = f"/v1/projects/{project}/logs"
        self._query = query
        self._show = show
        self._on_missed = on_missed
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
            self._read(self._show_one, tail)
        if self._query.follow:
            self._follow(tail)

    def _show_one(self, one: StoredRecord) -> None:
        self._show([one])

    def _follow(self, tail: int | None) -> None:
        while True:
            try:
                self._read(self._show_one, tail, follow=True)
            except Unreachable as error:
                if self._position is None:
                    raise
                if not self._disconnected:
                    stderr.warn(error.message, "svc reconnects until you press Ctrl+C.")
                self._disconnected = True
            stdout.pause(RETRY_SECONDS)

    def _read(
        self, take: Callable[[StoredRecord], None], tail: int | None = None, *, follow: bool = False
    ) -> None:
        query = self._query
        params: dict[str, Any] = {"resource": query.resource, "level": query.level, "request": query.request}
        if self._position is None:
            params |= {"since": query.since, "until": query.until, "after": query.after, "tail": tail}
        else:
            params["after"] = self._position
        if follow:
            params["follow"] = "true"
        with open_client(self._login) as client:
            for line in client.lines("GET", self._path, params=params):
                self._handle(line, take)

    def _handle(self, line: dict[str, Any], take: Callable[[StoredRecord], None]) -> None:
        if "missed" in line:
            self._on_missed(line["missed"])
            return
        if "upto" in line:
            self._position = line["upto"]
            self._disconnected = False
            stdout.pause(0)  # exits once the reader has closed the pipe
            return
        if "error" in line:
            raise ApiError.from_problem(line["error"])
        stored = from_json(line)
        self._position = stored.cursor
        if self._query.pattern is None or self._query.pattern.search(searchable(encode(stored.record))):
            take(stored)
