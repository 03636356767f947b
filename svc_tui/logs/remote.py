"""The timeline of a service, followed through its restarts. Owns the cursor: nothing comes twice."""

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
    """Which records; `pattern` is looked for here, all else by the service."""

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
    """The records of one Project."""

    def __init__(
        self,
        login: Credentials,
        project: str,
        wish: LogQuery,
        show: Callable[[Sequence[StoredRecord]], None],
        missed: Callable[[int], None],
    ) -> None:
        self._login = login
        self._path = f"/v1/projects/{project}/logs"
        self._wish = wish
        self._show = show
        self._missed = missed
        self._position: int | None = None
        self._away = False

    def run(self) -> None:
        """Show what is there and, when following, what comes, until the reader has enough."""
        tail = self._wish.tail
        if tail is not None and self._wish.pattern is not None:
            found: deque[StoredRecord] = deque(maxlen=tail)
            self._read(found.append)
            self._show(list(found))
            tail = None
        elif not self._wish.follow:
            self._read(self._show_one, tail)
        if self._wish.follow:
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
                if not self._away:
                    stderr.warn(error.message, "Following goes on when it is there again.")
                self._away = True
            stdout.pause(RETRY_SECONDS)

    def _read(
        self, take: Callable[[StoredRecord], None], tail: int | None = None, *, follow: bool = False
    ) -> None:
        wish = self._wish
        params: dict[str, Any] = {"resource": wish.resource, "level": wish.level, "request": wish.request}
        if self._position is None:
            params |= {"since": wish.since, "until": wish.until, "after": wish.after, "tail": tail}
        else:
            params["after"] = self._position
        if follow:
            params["follow"] = "true"
        with open_client(self._login) as client:
            for line in client.lines("GET", self._path, params=params):
                self._take(line, take)

    def _take(self, line: dict[str, Any], take: Callable[[StoredRecord], None]) -> None:
        if "missed" in line:
            self._missed(line["missed"])
            return
        if "upto" in line:
            self._position = line["upto"]
            self._away = False
            stdout.pause(0)  # ends the program where nobody reads any more
            return
        if "error" in line:
            raise ApiError.from_problem(line["error"])
        found = from_json(line)
        self._position = found.cursor
        if self._wish.pattern is None or self._wish.pattern.search(searchable(encode(found.record))):
            take(found)
