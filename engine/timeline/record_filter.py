"""Conditions on the records of a timeline."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from engine.door import Severity
from engine.timeline.stored_record import SEVERITY_NUMBERS, searchable

_WILD = re.compile(r"[%_\\]")
_SEARCHABLE_SQL = (
    "case kind when 'request' then method || ' ' || target || ' ' || status || ' ' || code || ' ' || body"
    " when 'structured' then body || ' ' || replace(replace(attributes, '\", \"', ' '), '\": \"', '=')"
    " else body end"
)
"""SQL for approximately the result of `searchable`."""
_HEAD_SQL = (
    "not (kind = 'stderr' and substr(body, 1, 1) in (' ', char(9)) and 'stderr' is "
    "(select kind from record as head where request_id <> '' and request_id = record.request_id "
    "and cursor < record.cursor order by cursor desc limit 1))"
)
_RECORDED_SQL = "coalesce(node_ms, written_ms)"
"""SQL for the Unix time in ms at which a record was written at its own node."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on records; a record must meet all that are set.

    `min_level` is the lowest level, `pattern` is searched in the result of `searchable`. `text` is searched
    there by SQLite, case-insensitively for a-z; quotes and line ends in attributes appear as in JSON.
    `statuses` are the lowest and highest status of a request. `roots` selects, of the spans of a request,
    only the one that the client's request started. `heads` omits indented lines of stderr that follow a line
    in the same request, such as the frames of a stack. `since_ns` and `until_ns` (exclusive) are Unix times.
    """

    resource: str | None = None
    request_id: str | None = None
    _: KW_ONLY
    min_level: Severity | None = None
    pattern: re.Pattern[str] | None = None
    text: str | None = None
    statuses: tuple[int, int] | None = None
    roots: bool = False
    heads: bool = False
    since_ns: int | None = None
    until_ns: int | None = None

    def condition(self) -> tuple[str, list[str | int]]:
        """Return the part that SQL evaluates, as an expression and its values."""
        parts: list[str] = ["true"]
        values: list[str | int] = []
        if self.resource is not None:
            parts.append("resource = ?")
            values.append(self.resource)
        if self.request_id is not None:
            parts.append("request_id <> '' and request_id = ?")
            values.append(self.request_id)
        if self.min_level is not None:
            parts.append("level >= ?")
            values.append(SEVERITY_NUMBERS[self.min_level])
        if self.text is not None:
            parts.append(f"{_SEARCHABLE_SQL} like ? escape '\\'")
            values.append("%" + _WILD.sub(r"\\\g<0>", self.text) + "%")
        if self.statuses is not None:
            parts.append("status between ? and ?")
            values += self.statuses
        if self.roots:
            parts.append("(root = 1 or kind <> 'request')")
        if self.heads:
            parts.append(_HEAD_SQL)
        if self.since_ns is not None:
            parts.append(f"{_RECORDED_SQL} >= ?")
            values.append(self.since_ns // 1_000_000)
        if self.until_ns is not None:
            parts.append(f"{_RECORDED_SQL} < ?")
            values.append(self.until_ns // 1_000_000)
        return " and ".join(parts), values

    def matches(self, row: Sequence[Any]) -> bool:
        """Return whether the remaining part holds, given the values of `FIELDS`."""
        return self.pattern is None or self.pattern.search(searchable(row)) is not None
