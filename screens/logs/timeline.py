"""The timeline as rows: the cursors of what a filter lets pass, kept up to date by a thread of its own.

Owns the cursors, 8 bytes each, and no record: those are fetched window by window. A stream that was cut is
taken up where it was, so that nothing is lost and nothing is there twice. Imports no Textual.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from screens.link import Link
from screens.logs.filter import Filter
from screens.logs.rows import removed, row
from screens.widgets.row_source import Row, RowsUnavailable
from svc_tui.client import SvcError

MOST = 2_000_000
"""Records that are shown at most; the older half goes when there are more."""


class Timeline:
    """The records that pass a filter, as a `RowSource`. `failed` hears of an error, from another thread."""

    def __init__(self, link: Link, filter: Filter, failed: Callable[[SvcError], None]) -> None:
        self.filter = filter
        self.ready = False
        """Whether all that was there at first is here."""
        self.missed = 0
        """How many records were removed before they could be shown."""
        self.dropped = 0
        """How often the older half was let go of; rows have other numbers since."""
        self._link = link
        self._failed = failed
        self._cursors = array("q")
        self._upto = 0
        self._frozen: int | None = None
        self._stream = 0
        self._lock = threading.Lock()

    # The cursors

    def begin(self) -> None:
        """Read what is there and go on with what comes, from where this was left."""
        self._stream += 1
        threading.Thread(target=self._follow, args=(self._stream,), name="logs", daemon=True).start()

    def end(self) -> None:
        """Read no more."""
        self._stream += 1

    @property
    def paused(self) -> bool:
        """Whether nothing that comes is shown."""
        return self._frozen is not None

    def pause(self, paused: bool) -> None:
        """Show nothing that comes, or all of it again."""
        self._frozen = len(self._cursors) if paused else None

    def count(self) -> int:
        """Return how many records there are to be shown; none before all of the first are here."""
        if self._frozen is not None:
            return self._frozen
        return len(self._cursors) if self.ready else 0

    def waiting(self) -> int:
        """Return how many have come since it was paused."""
        return len(self._cursors) - self._frozen if self._frozen is not None else 0

    def read(self) -> int:
        """Return how many are here, shown or not."""
        return len(self._cursors)

    def cursor(self, index: int) -> int:
        """Return the cursor of a row."""
        return self._cursors[index]

    def index(self, cursor: int) -> int | None:
        """Return the row of a cursor, if it is one."""
        with self._lock:
            found = bisect_left(self._cursors, cursor)
            return found if found < len(self._cursors) and self._cursors[found] == cursor else None

    def _follow(self, stream: int) -> None:
        params = {**self.filter.params(), "follow": "true", "after": self._upto}
        if self._upto:
            params.pop("since", None)
        try:
            for line in self._link.lines("GET", "/logs/cursors", params=params):
                if stream != self._stream:
                    return
                self._take(line)
        except SvcError as error:
            if stream == self._stream:
                self._failed(error)

    def _take(self, line: Mapping[str, Any]) -> None:
        if (offsets := line.get("offsets")) is not None:
            after = line["after"]
            with self._lock:
                self._cursors.extend(array("q", [after + offset for offset in offsets]))
                self._upto = line["upto"]
                if len(self._cursors) > MOST and self._frozen is None:
                    del self._cursors[: MOST // 2]
                    self.dropped += 1
        elif (live := line.get("live")) is not None:
            self._upto, self.ready = live, True
        elif (missed := line.get("missed")) is not None:
            self.missed += missed
        elif (error := line.get("error")) is not None:
            raise SvcError(error["title"], error.get("hint", ""), code=error.get("code"))

    # The records

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows, each with its record's cursor as key."""
        with self._lock:
            cursors = self._cursors[start : start + n].tolist()
        if not cursors:
            return []
        found = {document["cursor"]: document for document in self._documents(cursors)}
        return [
            row(found[cursor], found[cursor].get("below", ())) if cursor in found else removed(cursor)
            for cursor in cursors
        ]

    def document(self, cursor: int) -> dict[str, Any] | None:
        """Return one record, with the spans below it; `None` when it is gone. Raises `SvcError`."""
        found = self._get({"cursors": str(cursor), "below": "true"})
        return found[0] if found else None

    def _documents(self, cursors: Sequence[int]) -> list[dict[str, Any]]:
        try:
            return self._get({"cursors": ",".join(map(str, cursors)), "below": "true"})
        except SvcError as error:
            raise RowsUnavailable(error.message) from error

    def _get(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        return list(self._link.ask("GET", "/logs/records", params=params)["records"])

    def next(self, cursor: int, step: int, more: Mapping[str, Any]) -> int | None:
        """Return the cursor of the next record, or the one before, of those shown, which passes more, too."""
        params = {**self.filter.params(), **more, "n": 1, ("after" if step > 0 else "before"): cursor}
        with suppress(KeyError):
            if step > 0:
                del params["since"]
        found = self._link.ask("GET", "/logs/window", params=params)["records"]
        return int(found[0]["cursor"]) if found else None
