"""Which records of a timeline a request asks for. Owns these members of queries, and what they mean."""

import re
import time
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from engine.errors import SvcError
from engine.timeline.query import RecordFilter, TimelineReader
from engine.timeline.record import SEVERITIES, severity

MAX_CURSOR = (1 << 63) - 1
"""The highest cursor that there can be."""
MAX_TEXT_LENGTH = 1000
_STATUS = re.compile(r"(>=)?([1-5])(\d\d|xx)")


class LogFilter(BaseModel):
    """All that is given has to hold.

    `level` is the lowest. `status` of requests: `404`, `5xx`, `>=400`. `text` is searched in what a record
    says (a request's method, target, status, code and detail; else body and attributes as `key=value`), with
    letters a-z in capitals or not. `since` and `until` are seconds back: what was recorded at that time or
    later, and what was recorded before. `roots` leaves out the spans that a mount led to.
    """

    model_config = ConfigDict(extra="forbid")
    resource: str | None = None
    level: str | None = None
    request: str | None = None
    status: Annotated[str, StringConstraints(pattern=f"^{_STATUS.pattern}$")] | None = None
    text: str | None = Field(None, min_length=1, max_length=MAX_TEXT_LENGTH)
    since: float | None = Field(None, ge=0, le=1e9)
    until: float | None = Field(None, ge=0, le=1e9)
    roots: bool = False

    def filter(self) -> RecordFilter:
        """Return it as the timeline takes it. Raises `SvcError`."""
        least = None
        if self.level is not None:
            least = severity(self.level)
            if least is None:
                names = ", ".join(each.lower() for each in SEVERITIES)
                raise SvcError(f'there is no level "{self.level}"', f"There are {names}.", code="invalid")
        return RecordFilter(
            self.resource,
            self.request,
            least,
            text=self.text,
            statuses=_statuses(self.status) if self.status is not None else None,
            roots=self.roots,
        )

    def times(self) -> tuple[int | None, int | None]:
        """Return `since` and `until` in nanoseconds of the Unix epoch."""
        now = time.time_ns()
        since, until = (back if back is None else now - int(back * 1e9) for back in (self.since, self.until))
        return since, until

    def between(self, reader: TimelineReader) -> tuple[int, int]:
        """Return the cursor after which, and that up to which, records are of the time that is asked for."""
        since, until = self.times()
        return (
            reader.cursor_before(since) if since is not None else 0,
            reader.cursor_before(until) if until is not None else MAX_CURSOR,
        )

    def check_follow(self, *, follow: bool) -> None:
        """Raise `SvcError` where what comes is wanted, and nothing of it can be."""
        if follow and self.until is not None:
            raise SvcError("what comes is not before `until`: leave out that or `follow`", code="invalid")


def _statuses(text: str) -> tuple[int, int]:
    match = _STATUS.fullmatch(text)
    assert match is not None
    beyond, hundred, rest = match.groups()
    first = int(hundred + rest.replace("x", "0"))
    return first, 599 if beyond else first + (99 if rest == "xx" else 0)
