"""Records of the timeline: filters, export of the matching records, and their row source. Pure.

A filter is written as `resource:api level:warn status:5xx request:ID since:1h until:10m`; `text:WORDS` and
other words are searched as text. The row source stores 8 bytes per record, and fetches the records window by
window. An interrupted stream resumes at its last position, without gaps or duplicates.
"""

import json
import re
import shlex
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from screens.files import Chunks
from screens.logs.format import line as text_line
from screens.logs.format import removed_row, row
from screens.project_client import ProjectClient
from screens.widgets.rows import Row, RowsUnavailable
from svc_tui.client import SvcError
from svc_tui.terminal.units import age_seconds

KEYS = ("resource", "level", "status", "request", "since", "until", "text")
TIMES = ("since", "until")
LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
_TO_QUOTE = re.compile(r"[\s'\"\\]")
_WORD = re.compile(rf"({'|'.join(KEYS)})[:=](.*)", re.DOTALL)
_STATUS = re.compile(r"(>=)?[1-5](\d\d|xx)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """The parts that a record has to match, unless they are empty. `since` and `until` are ages: `10m`."""

    resource: str = ""
    level: str = ""
    status: str = ""
    request: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    @classmethod
    def of(cls, words: Iterable[str]) -> "RecordSelection":
        """Parse words. Raises `SvcError` for an invalid one."""
        parts: dict[str, str] = {}
        text: list[str] = []
        for word in words:
            key, value = _split(word)
            _check(key, value)
            if key == "text":
                text.append(value)
            else:
                parts[key] = value
        since, until = (age_seconds(parts.get(key, "")) for key in TIMES)
        if since is not None and until is not None and since <= until:
            hint = "Use an earlier time for since: since:1h until:10m"
            raise SvcError(f"since:{parts['since']} is not before until:{parts['until']}", hint)
        return cls(**parts, text=" ".join(text))

    @classmethod
    def parse(cls, line: str) -> "RecordSelection":
        """Parse a line; quotes group words. Raises `SvcError`."""
        try:
            return cls.of(shlex.split(line))
        except ValueError as error:
            hint = "Close the quote, or put a backslash before it."
            raise SvcError(f"unclosed quote in: {line}", hint) from error

    def chips(self) -> list[tuple[str, str]]:
        """Return key and value of each part that is set."""
        parts = [(key, getattr(self, key)) for key in KEYS]
        return [(key, value) for key, value in parts if value]

    def words(self) -> str:
        """Return the filter as a line that `parse` accepts."""
        words = [
            value if key == "text" and _split(value) == ("text", value) else f"{key}:{value}"
            for key, value in self.chips()
        ]
        return " ".join(shlex.quote(word) if _TO_QUOTE.search(word) else word for word in words)

    def without(self, key: str) -> "RecordSelection":
        return replace(self, **{key: ""})

    def params(self, age: float = 0.0) -> dict[str, str | float]:
        """Return the query parameters; without a resource or request, only root spans match.

        `age` is the number of seconds since the filter was set. It fixes the times of `since` and `until`.
        """
        params: dict[str, str | float] = {
            key: (age_seconds(value) or 0) + age if key in TIMES else value for key, value in self.chips()
        }
        return params if self.resource or self.request else params | {"roots": "true"}


def _split(word: str) -> tuple[str, str]:
    """Return key and value; the first `:` or `=` separates. A word without a key is text."""
    match = _WORD.fullmatch(word)
    return (match[1], match[2]) if match else ("text", word)


def _check(key: str, value: str) -> None:
    if not value:
        raise SvcError(f"{key}: has no value", f"Write {key}:VALUE without a blank.")
    if key == "level" and value.lower() not in LEVELS:
        raise SvcError(f'unknown level "{value}"', f"Available: {', '.join(LEVELS)}.")
    if key == "status" and not _STATUS.fullmatch(value):
        raise SvcError(f'invalid status "{value}"', "Use status:404, status:5xx or status:>=400.")
    if key in TIMES and age_seconds(value) is None:
        raise SvcError(f'invalid age "{value}"', f"Use {key}:30s, {key}:10m, {key}:12h or {key}:7d.")


PAGE_RECORDS = 1000
"""Records per request."""
LINES = frozenset({".txt", ".log"})
JSON = frozenset({".jsonl", ".ndjson"})
OnExportProgress = Callable[[int, float], None]
"""Receives the number of written records and the processed fraction of the timeline, from 0 to 1."""


def is_text_file(path: Path) -> bool:
    """Return whether a file is for text lines, not JSON, by its suffix. Raises `SvcError` for others."""
    suffix = path.suffix.lower()
    if suffix not in LINES | JSON:
        hint = "Use .jsonl for complete JSON records, or .txt or .log for text lines."
        raise SvcError(f"unknown file format: {path}", hint)
    return suffix in LINES


def export_records(
    client: ProjectClient, filter: RecordSelection, *, lines: bool, on_progress: OnExportProgress
) -> Chunks:
    """Yield the encoded records that match a filter, up to the last one at the start. Raises `SvcError`.

    Records are requested page by page, which bounds memory on both sides.
    """
    count, after, first, last = 0, 0, 0, None
    began = monotonic()
    while True:
        page = {"after": after, "n": PAGE_RECORDS, "spans": "true"}
        params: dict[str, Any] = {**filter.params(monotonic() - began), **page}
        answer = client.call_sync("GET", "/logs/window", params=params)
        if last is None:
            first, last = answer["first"], answer["last"]
        records = [document for document in answer["records"] if document["cursor"] <= last]
        yield b"".join(_encoded(document, lines) for document in records)
        count += len(records)
        after = records[-1]["cursor"] if records else last
        on_progress(count, (after - first + 1) / max(last - first + 1, 1))
        if not records or after >= last:
            return


def _encoded(document: dict[str, Any], lines: bool) -> bytes:
    spans = document.pop("spans", ())
    text = text_line(document, spans) if lines else json.dumps(document, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


MAX_RECORDS = 2_000_000
"""Maximum number of records; beyond it the older half is dropped."""
LAST = (1 << 63) - 1
"""Greater than every cursor."""


class RecordSource:
    """The records that match a filter. `on_error` is called from background threads.

    One stream reads existing records from the end backwards; another follows new records. Row indexes change
    only in `merge_history`, which the UI thread calls.
    """

    def __init__(
        self,
        client: ProjectClient,
        filter: RecordSelection,
        on_error: Callable[[SvcError], None],
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.filter = filter
        self.ready = False
        """True once there are rows to show, or the timeline is known to be empty."""
        self.complete = False
        """True once all records that existed at the start are rows."""
        self.dropped = 0
        """The number of records that were deleted or dropped before they could be shown."""
        self.room = 0
        """The text width on a narrow screen, or 0. This and the following attributes affect the rows."""
        self.search = ""
        """The text to highlight in rows."""
        self._started = monotonic()
        self._client = client
        self._on_error = on_error
        self._now = now
        self._cursors = array("q")
        self._before: list[array[int]] = []
        self._history_read = False
        self._lowest = LAST
        self._position = 0
        self._paused_at: int | None = None
        self._generation = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start or resume reading."""
        self._generation += 1
        if self.follows or not self._history_read:
            self._start_thread(self._follow if self._history_read else self._read_history, self._generation)

    def _start_thread(self, read: Callable[[int], None], generation: int) -> None:
        def run() -> None:
            try:
                read(generation)
            except SvcError as error:
                if generation == self._generation:
                    self.stop()
                    self._on_error(error)

        threading.Thread(target=run, name="logs", daemon=True).start()

    def stop(self) -> None:
        self._generation += 1

    @property
    def follows(self) -> bool:
        """True if new records can match the filter."""
        return not self.filter.until

    def _params(self) -> dict[str, Any]:
        """Return the filter. Lines that belong to the one before are rows only if a text is searched."""
        heads = {} if self.filter.text else {"heads": "true"}
        return {**self.filter.params(monotonic() - self._started), **heads}

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    def pause(self, paused: bool) -> None:
        self._paused_at = len(self._cursors) if paused else None

    def count(self) -> int:
        """Return the number of rows; 0 until the newest existing records are loaded."""
        if self._paused_at is not None:
            return self._paused_at
        return len(self._cursors) if self.ready else 0

    def waiting(self) -> int:
        """Return the number of new records since the pause."""
        return len(self._cursors) - self._paused_at if self._paused_at is not None else 0

    def read(self) -> int:
        """Return the number of loaded records, shown or not."""
        return len(self._cursors) + sum(map(len, self._before))

    def cursor(self, index: int) -> int:
        return self._cursors[index]

    def index(self, cursor: int) -> int | None:
        """Return the row of a cursor, or of the line that it belongs to; None if it is not loaded."""
        with self._lock:
            position = bisect_right(self._cursors, cursor) - 1
            return position if position >= 0 else None

    def nearest(self, cursor: int) -> int | None:
        """Return the row of a cursor or the next one, or None if it is not loaded yet."""
        with self._lock:
            is_loaded = self.complete or (self._cursors and self._cursors[0] <= cursor)
            return min(bisect_left(self._cursors, cursor), len(self._cursors) - 1) if is_loaded else None

    def merge_history(self) -> int:
        """Insert the loaded history before the rows, and drop records beyond the maximum.

        Returns the change of the row indexes; negative if records were dropped.
        """
        added = 0
        with self._lock:
            if self._history_read and not self.complete:
                cursors = array("q")
                for stretch in reversed(self._before):
                    cursors.extend(stretch)
                added = len(cursors)
                cursors.extend(self._cursors)
                self._cursors, self._before, self.complete = cursors, [], True
                if self._paused_at is not None:
                    self._paused_at += added
            if self._paused_at is None and len(self._cursors) > MAX_RECORDS:
                del self._cursors[: MAX_RECORDS // 2]
                added -= MAX_RECORDS // 2
            elif self.waiting() > MAX_RECORDS:
                assert self._paused_at is not None
                del self._cursors[self._paused_at : self._paused_at + MAX_RECORDS // 2]
                self.dropped += MAX_RECORDS // 2
        return added

    def _read_history(self, generation: int) -> None:
        """Read existing records from the end backwards, while another thread follows new ones."""
        params = {**self._params(), "newest": "true"}
        following = not self.follows
        for line in self._lines(params, generation):
            if not following:
                self._position, following = self._position or line["last"], True
                self._start_thread(self._follow, generation)
            elif (offsets := line.get("offsets")) is not None:
                after, lowest = line["after"], self._lowest
                cursors = array("q", [after + offset for offset in offsets if after + offset < lowest])
                with self._lock:
                    self._lowest = min(lowest, after + 1)
                    if self.ready:
                        self._before.append(cursors)
                    else:
                        self._cursors[:0] = cursors
                        self.ready = bool(self._cursors)
                if self.read() >= MAX_RECORDS:
                    break
        if generation == self._generation:
            self.ready = self._history_read = True

    def _follow(self, generation: int) -> None:
        params = {**self._params(), "follow": "true", "after": self._position}
        for line in self._lines(params, generation):
            if (offsets := line.get("offsets")) is not None:
                after = line["after"]
                with self._lock:
                    self._cursors.extend(array("q", [after + offset for offset in offsets]))
                    self._position = line["position"]
            elif (position := line.get("position")) is not None:
                self._position = position
            elif (dropped := line.get("dropped")) is not None:
                self.dropped += dropped

    def _lines(self, params: Mapping[str, Any], generation: int) -> Iterator[Mapping[str, Any]]:
        for line in self._client.lines("GET", "/logs/cursors", params=dict(params)):
            if generation != self._generation:
                return
            yield line

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows with the cursors of their records as keys. Raises `RowsUnavailable`."""
        with self._lock:
            cursors = self._cursors[start : start + n].tolist()
        if not cursors:
            return []
        try:
            documents = self._get({"cursors": ",".join(map(str, cursors))})
        except SvcError as error:
            raise RowsUnavailable(error.message) from error
        records = {document["cursor"]: document for document in documents}
        to_row = partial(row, room=self.room, search=self.search, today=self._now().date())
        found = ((cursor, records.get(cursor)) for cursor in cursors)
        return [to_row(each, each.get("spans", ())) if each else removed_row(at) for at, each in found]

    def document(self, cursor: int) -> dict[str, Any] | None:
        """Return a record with its mounted spans, or None if it was deleted. Raises `SvcError`."""
        records = self._get({"cursors": str(cursor)})
        return records[0] if records else None

    def _get(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        params |= {"spans": "true"} if self.filter.text else {"spans": "true", "heads": "true"}
        return list(self._client.call_sync("GET", "/logs/records", params=params)["records"])

    def next(self, cursor: int, step: int, filters: Mapping[str, Any]) -> int | None:
        """Return the cursor of the next (`step` 1) or previous (-1) shown record that matches `filters`."""
        params = {**self._params(), **filters, "n": 1, ("after" if step > 0 else "before"): cursor}
        if "text" in filters:
            params.pop("heads", None)
            if step > 0 and (row := self.index(cursor)) is not None and row + 1 < len(self._cursors):
                params["after"] = self._cursors[row + 1] - 1  # The row of a match in its further lines.
        records = self._client.call_sync("GET", "/logs/window", params=params)["records"]
        return int(records[0]["cursor"]) if records else None
