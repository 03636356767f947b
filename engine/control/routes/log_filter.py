"""Query parameters that filter log records."""

import re
import time
from typing import Annotated

from pydantic import Field, StringConstraints

from engine.control.schema import QueryModel
from engine.errors import SvcError
from engine.timeline.query import TimelineReader
from engine.timeline.record import SEVERITIES, severity
from engine.timeline.record_filter import RecordFilter

MAX_CURSOR = (1 << 63) - 1
"""The highest possible cursor."""
MAX_TEXT_LENGTH = 1000
_STATUS = re.compile(r"(>=)?([1-5])(\d\d|xx)")


class LogFilter(QueryModel):
    """All conditions must hold.

    `level` is the minimum severity. `status` of requests: `404`, `5xx`, `>=400`. `text` is searched in a
    record's content, ignoring case of a-z: for requests the method, target, status, code and detail;
    otherwise the body and the attributes as `key=value`. `since` and `until` are in seconds before now;
    `since` is inclusive, `until` exclusive. `roots` omits the spans of mounted resources, `heads` the
    indented lines of stderr that follow a line of their request.
    """

    resource: str | None = None
    level: str | None = None
    request: str | None = None
    status: Annotated[str, StringConstraints(pattern=f"^{_STATUS.pattern}$")] | None = None
    text: str | None = Field(None, min_length=1, max_length=MAX_TEXT_LENGTH)
    since: float | None = Field(None, ge=0, le=1e9)
    until: float | None = Field(None, ge=0, le=1e9)
    roots: bool = False
    heads: bool = False

    def filter(self) -> RecordFilter:
        """Return the timeline's filter. Raises `SvcError`."""
        minimum = None
        if self.level is not None:
            minimum = severity(self.level)
            if minimum is None:
                names = ", ".join(each.lower() for each in SEVERITIES)
                raise SvcError(f'unknown level "{self.level}"', f"Available: {names}.", code="invalid")
        since_ns, until_ns = self.times()
        return RecordFilter(
            self.resource,
            self.request,
            min_level=minimum,
            text=self.text,
            statuses=_statuses(self.status) if self.status is not None else None,
            roots=self.roots,
            heads=self.heads,
            since_ns=since_ns,
            until_ns=until_ns,
        )

    def times(self) -> tuple[int | None, int | None]:
        """Return `since` and `until` as Unix time in ns."""
        now = time.time_ns()
        since, until = (back if back is None else now - int(back * 1e9) for back in (self.since, self.until))
        return since, until

    def between(self, reader: TimelineReader) -> tuple[int, int]:
        """Return the cursors of the time range: the first exclusive, the last inclusive."""
        since, until = self.times()
        return (
            reader.cursor_before(since) if since is not None else 0,
            reader.last_before(until) if until is not None else MAX_CURSOR,
        )

    def check_follow(self, *, follow: bool) -> None:
        """Raise `SvcError` if `follow` is combined with `until`."""
        if follow and self.until is not None:
            raise SvcError("`follow` and `until` exclude each other", code="invalid")


def _statuses(text: str) -> tuple[int, int]:
    match = _STATUS.fullmatch(text)
    assert match is not None
    beyond, hundred, rest = match.groups()
    first = int(hundred + rest.replace("x", "0"))
    return first, 599 if beyond else first + (99 if rest == "xx" else 0)
