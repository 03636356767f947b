"""The timeline of a service, followed through its restarts. Owns the cursor: nothing comes twice."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.timeline.document import entry
from engine.timeline.row import Entry, encode, searchable
from svc_tui.client import Refused, Unreachable
from svc_tui.session import Login, connected
from svc_tui.terminal import diagnostics, output

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Which records; `pattern` is looked for here, all else by the service."""

    resource: str | None
    level: str | None
    request: str | None
    pattern: re.Pattern[str] | None
    since: float | None
    tail: int | None
    after: int | None
    follow: bool


class RemoteLogs:
    """The records of one Project."""

    def __init__(
        self,
        login: Login,
        project: str,
        wish: Wish,
        show: Callable[[Sequence[Entry]], None],
        missed: Callable[[int], None],
    ) -> None:
        self._login = login
        self._path = f"/v1/projects/{project}/logs"
        self._wish = wish
        self._show = show
        self._missed = missed
        self._position = wish.after

    def run(self) -> None:
        """Show what is there and, when following, what comes, until the reader has enough."""
        wish = self._wish
        if wish.tail is not None and wish.pattern is not None:
            found: deque[Entry] = deque(maxlen=wish.tail)
            self._read(found.append, follow=False)
            self._show(list(found))
        elif wish.tail is not None or not wish.follow:
            self._read(lambda one: self._show([one]), follow=False, tail=wish.tail)
        if wish.follow:
            self._follow()

    def _follow(self) -> None:
        told = False
        while True:
            try:
                self._read(lambda one: self._show([one]), follow=True)
            except Unreachable as error:
                if not told:
                    diagnostics.warn(error.message, "Following goes on when it is there again.")
            told = True
            output.pause(RETRY_SECONDS)

    def _read(self, take: Callable[[Entry], object], *, follow: bool, tail: int | None = None) -> None:
        wish = self._wish
        params = {
            "resource": wish.resource,
            "level": wish.level,
            "request": wish.request,
            "since": wish.since if self._position is None else None,
            "after": self._position,
            "tail": tail,
            "follow": "true" if follow else None,
        }
        with connected(self._login) as client:
            for line in client.lines("GET", self._path, params=params):
                self._take(line, take)

    def _take(self, line: dict[str, Any], take: Callable[[Entry], object]) -> None:
        if "missed" in line:
            self._missed(line["missed"])
            return
        if "error" in line:
            members = line["error"]
            raise Refused(members["title"], members.get("hint", ""), members["code"], members)
        found = entry(line)
        self._position = found.cursor
        if self._wish.pattern is None or self._wish.pattern.search(searchable(encode(found.record))):
            take(found)
