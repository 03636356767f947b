"""Row source of the logs of a fleet: the last records of all nodes, in memory. Does not import Textual.

Nodes number their records independently, so a row is identified by the time at which its record ended.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from screens.logs.filter import LEVELS
from screens.logs.format import began
from screens.logs.record_source import RecordSource

MAX_FLEET_RECORDS = 10_000
"""Number of records that are read at the start, and that remain; the oldest are dropped."""
MAX_FLEET_CHARS = 32 << 20
"""Maximum characters of the texts of all records."""
MAX_OPEN_REQUESTS = 1000
"""Requests whose spans are stored until their root span arrives."""


class FleetRecordSource(RecordSource):
    """See `RecordSource`. The thread that follows also reads the existing records.

    The service sends a position after the records that lead to it. Records are rows from then on, so that an
    interrupted stream continues without gaps or duplicates.
    """

    STREAM = "/logs"

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self._after = ""
        self._records: dict[int, dict[str, Any]] = {}
        self._spans: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._chars = 0

    def _read_history(self, generation: int) -> None:
        self._follow(generation)

    def _follow(self, generation: int) -> None:
        pending: list[dict[str, Any]] = []
        has_position = False
        for line in self._lines(self._stream_params(), generation):
            if "kind" in line:
                pending.append(dict(line))
            elif "position" in line:
                self._after = line["position"]
                if has_position:
                    self._add(pending)
                    pending = []
                has_position = True
            elif "missing" in line:
                self.missing = tuple(node["node"] for node in line["missing"])
            elif "dropped" in line:
                self.dropped += line["dropped"]
        if generation == self._generation:
            self._add(pending)

    def _stream_params(self) -> dict[str, Any]:
        params = {**self._params(), "roots": None, "heads": None, "follow": "true" if self.follows else None}
        if self._after:
            return {**params, "since": None, "after": self._after}
        return {**params, "tail": MAX_FLEET_RECORDS}

    def _add(self, documents: Sequence[dict[str, Any]]) -> None:
        """Append the rows of new records. All existing ones were read."""
        with_spans = not self.filter.resource and not self.filter.request
        with self._lock:
            for document in documents:
                for name in ("calls", "calls_omitted"):
                    document.pop(name, None)
                if document["kind"] == "request" and with_spans and not document["root"]:
                    self._add_span(document)
                    continue
                if document.get("root"):
                    document["spans"] = self._spans.pop(document["request_id"], [])
                last = self._cursors[-1] if self._cursors else 0
                key = max(last + 1, began(document) + document.get("wall_ns", 0))
                self._cursors.append(key)
                self._records[key] = document
                self._chars += _chars(document)
            self.ready = self._history_read = True

    def _add_span(self, document: dict[str, Any]) -> None:
        self._spans.setdefault(document["request_id"], []).append(document)
        if len(self._spans) > MAX_OPEN_REQUESTS:
            self._spans.popitem(last=False)

    def merge_history(self) -> int:
        """Drop the oldest records beyond the maximum, or the oldest of those that wait."""
        super().merge_history()
        with self._lock:
            if len(self._cursors) <= MAX_FLEET_RECORDS and self._chars <= MAX_FLEET_CHARS:
                return 0
            begin = self._paused_at or 0
            count = min(len(self._cursors) - begin, max(MAX_FLEET_RECORDS // 4, 1))
            for key in self._cursors[begin : begin + count]:
                self._chars -= _chars(self._records.pop(key))
            del self._cursors[begin : begin + count]
            if self._paused_at is not None:
                self.dropped += count
                return 0
            return -count

    def document(self, cursor: int) -> dict[str, Any] | None:
        """Return a record with its mounted spans, or None if it was dropped."""
        return self._records.get(cursor)

    def _documents(self, cursors: Sequence[int]) -> list[dict[str, Any]]:
        documents = ((cursor, self._records.get(cursor)) for cursor in cursors)
        return [{**document, "cursor": cursor} for cursor, document in documents if document is not None]

    def next(self, cursor: int, step: int, filters: Mapping[str, Any]) -> int | None:
        """Return the cursor of the next (`step` 1) or previous (-1) row that matches `filters`."""
        with self._lock:
            rows = self._cursors
            keys = rows[bisect_right(rows, cursor) :] if step > 0 else rows[: bisect_left(rows, cursor)][::-1]
            return next((key for key in keys if _matches(self._records[key], filters)), None)


def _matches(document: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    if (level := filters.get("level")) and LEVELS.index(document["level"].lower()) < LEVELS.index(level):
        return False
    if (request := filters.get("request")) and document["request_id"] != request:
        return False
    text = filters.get("text")
    return not text or text.lower() in _text(document).lower()


def _text(document: Mapping[str, Any]) -> str:
    if document["kind"] == "request":
        return " ".join(str(document[name]) for name in ("method", "target", "status", "code", "detail"))
    attributes = document.get("attributes", {})
    return " ".join((document["body"], *(f"{key}={value}" for key, value in attributes.items())))


def _chars(document: Mapping[str, Any]) -> int:
    return len(_text(document))
