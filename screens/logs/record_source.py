"""The timeline as rows: the cursors of what a filter lets pass, kept up to date by a thread of its own.

Owns the cursors, 8 bytes each, and no record: those are fetched window by window. A stream that was cut is
taken up where it was, so that nothing is lost and nothing is there twice. Imports no Textual.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

from screens.logs.filter import Filter
from screens.logs.format import removed, row
from screens.project_client import ProjectClient
from screens.widgets.row_source import Row, RowsUnavailable
from svc_tui.client import SvcError

MOST = 2_000_000
"""Records that are shown at most; the older half goes when there are more."""
LAST = (1 << 63) - 1
"""Above every cursor."""


class Timeline:
    """The records that pass a filter, as a `RowSource`. `failed` hears of an error, from another thread.

    The last come first: two streams, one of what is there, from its end back, the other of what comes. Rows
    have other numbers only after `settle`, which the thread that draws calls.
    """

    def __init__(
        self,
        link: ProjectClient,
        filter: Filter,
        failed: Callable[[SvcError], None],
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.filter = filter
        self.ready = False
        """Whether there is something to show, or nothing is known to be there."""
        self.whole = False
        """Whether all that was there at first is among the rows."""
        self.missed = 0
        """How many records were removed, or let go of while it was paused, before they could be shown."""
        self.room = 0
        """The cells of the text on a narrow screen, or 0. With this, and what follows, the rows change."""
        self.sought = ""
        """The text that stands out in rows."""
        self._began = monotonic()
        self._link = link
        self._failed = failed
        self._now = now
        self._cursors = array("q")
        self._before: list[array[int]] = []
        self._gathered = False
        self._lowest = LAST
        self._upto = 0
        self._frozen: int | None = None
        self._stream = 0
        self._lock = threading.Lock()

    # The cursors

    def begin(self) -> None:
        """Read what is there and go on with what comes, from where this was left."""
        self._stream += 1
        if self.follows or not self._gathered:
            self._start(self._follow if self._gathered else self._gather, self._stream)

    def _start(self, read: Callable[[int], None], stream: int) -> None:
        threading.Thread(target=self._reading, args=(read, stream), name="logs", daemon=True).start()

    def _reading(self, read: Callable[[int], None], stream: int) -> None:
        try:
            read(stream)
        except SvcError as error:
            if stream == self._stream:
                self.end()
                self._failed(error)

    def end(self) -> None:
        """Read no more."""
        self._stream += 1

    @property
    def follows(self) -> bool:
        """Whether anything that comes can pass."""
        return not self.filter.until

    def _params(self) -> dict[str, Any]:
        return dict(self.filter.params(monotonic() - self._began))

    @property
    def paused(self) -> bool:
        """Whether nothing that comes is shown."""
        return self._frozen is not None

    def pause(self, paused: bool) -> None:
        """Show nothing that comes, or all of it again."""
        self._frozen = len(self._cursors) if paused else None

    def count(self) -> int:
        """Return how many records there are to be shown; none before the last of the first are here."""
        if self._frozen is not None:
            return self._frozen
        return len(self._cursors) if self.ready else 0

    def waiting(self) -> int:
        """Return how many have come since it was paused."""
        return len(self._cursors) - self._frozen if self._frozen is not None else 0

    def read(self) -> int:
        """Return how many are here, shown or not."""
        return len(self._cursors) + sum(map(len, self._before))

    def cursor(self, index: int) -> int:
        """Return the cursor of a row."""
        return self._cursors[index]

    def index(self, cursor: int) -> int | None:
        """Return the row of a cursor, if it is one."""
        with self._lock:
            found = bisect_left(self._cursors, cursor)
            return found if found < len(self._cursors) and self._cursors[found] == cursor else None

    def nearest(self, cursor: int) -> int | None:
        """Return the row at a cursor, or the next one; none before it is known which that is."""
        with self._lock:
            known = self.whole or (self._cursors and self._cursors[0] <= cursor)
            return min(bisect_left(self._cursors, cursor), len(self._cursors) - 1) if known else None

    def settle(self) -> int:
        """Have rows be what was read before them, and no more than there may be.

        Returns by how much the numbers of the rows that there were have grown; below 0 when others went.
        """
        came = 0
        with self._lock:
            if self._gathered and not self.whole:
                cursors = array("q")
                for stretch in reversed(self._before):
                    cursors.extend(stretch)
                came = len(cursors)
                cursors.extend(self._cursors)
                self._cursors, self._before, self.whole = cursors, [], True
                if self._frozen is not None:
                    self._frozen += came
            if self._frozen is None and len(self._cursors) > MOST:
                del self._cursors[: MOST // 2]
                came -= MOST // 2
            elif self.waiting() > MOST:
                assert self._frozen is not None
                del self._cursors[self._frozen : self._frozen + MOST // 2]
                self.missed += MOST // 2
        return came

    def _gather(self, stream: int) -> None:
        """Read what is there, from the end back, and have another thread follow what comes."""
        params = {**self._params(), "newest": "true"}
        following = not self.follows
        for line in self._lines(params, stream):
            if not following:
                self._upto, following = self._upto or line["last"], True
                self._start(self._follow, stream)
            elif (offsets := line.get("offsets")) is not None:
                self._take_before(line["after"], offsets)
                if self.read() >= MOST:
                    break
        if stream == self._stream:
            self.ready = self._gathered = True

    def _take_before(self, after: int, offsets: Sequence[int]) -> None:
        found = array("q", [after + offset for offset in offsets if after + offset < self._lowest])
        with self._lock:
            self._lowest = min(self._lowest, after + 1)
            if self.ready:
                self._before.append(found)
            else:
                self._cursors[:0] = found
                self.ready = bool(self._cursors)

    def _follow(self, stream: int) -> None:
        params = {**self._params(), "follow": "true", "after": self._upto}
        for line in self._lines(params, stream):
            if (offsets := line.get("offsets")) is not None:
                after = line["after"]
                with self._lock:
                    self._cursors.extend(array("q", [after + offset for offset in offsets]))
                    self._upto = line["upto"]
            elif (live := line.get("live")) is not None:
                self._upto = live
            elif (missed := line.get("missed")) is not None:
                self.missed += missed

    def _lines(self, params: Mapping[str, Any], stream: int) -> Iterator[Mapping[str, Any]]:
        for line in self._link.lines("GET", "/logs/cursors", params=dict(params)):
            if stream != self._stream:
                return
            if (error := line.get("error")) is not None:
                raise SvcError(error["title"], error.get("hint", ""), code=error.get("code"))
            yield line

    # The records

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows, each with its record's cursor as key."""
        with self._lock:
            cursors = self._cursors[start : start + n].tolist()
        if not cursors:
            return []
        found = {document["cursor"]: document for document in self._documents(cursors)}
        look = partial(row, room=self.room, sought=self.sought, today=self._now().date())
        return [
            look(found[cursor], found[cursor].get("below", ())) if cursor in found else removed(cursor)
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
        return list(self._link.call_sync("GET", "/logs/records", params=params)["records"])

    def next(self, cursor: int, step: int, more: Mapping[str, Any]) -> int | None:
        """Return the cursor of the next record, or the one before, of those shown, which passes more, too."""
        params = {**self._params(), **more, "n": 1, ("after" if step > 0 else "before"): cursor}
        found = self._link.call_sync("GET", "/logs/window", params=params)["records"]
        return int(found[0]["cursor"]) if found else None
