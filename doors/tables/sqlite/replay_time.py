"""Time of SQL in a replay: each request to the tables gets that of the recorded one with its body."""

import json
from collections.abc import Sequence
from typing import Any

from doors.tables.sqlite.connections import Clock, apsw

_EPOCH_MS = 210_866_760_000_000
"""1970 in milliseconds of the Julian day, as SQLite counts."""


class ReplayTime(apsw.VFS):
    """A file system of SQLite whose clock shows recorded times, also in `strftime` and CURRENT_TIMESTAMP."""

    def __init__(self, start_ns: int, calls: Sequence[tuple[Any, int]]) -> None:
        """Start at a Unix time; `calls` are the JSON documents of recorded requests, and their times."""
        self.name = f"svc-replay-{id(self)}"
        super().__init__(self.name, "")
        self._calls = list(calls)
        self._now_ns = start_ns

    def begin(self, body: bytes) -> None:
        """Set the clock to the time of the next recorded request with this body, if there is one."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return
        for index, (recorded, time_ns) in enumerate(self._calls):
            if recorded == document:
                self._now_ns = time_ns
                del self._calls[index]
                return

    def clock(self) -> Clock:
        """Return a clock of connections."""
        return Clock(lambda: self._now_ns / 1e9, self.name)

    def xCurrentTimeInt64(self) -> int:
        """Return the time as SQLite counts it."""
        return self._now_ns // 1_000_000 + _EPOCH_MS
