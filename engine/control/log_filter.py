"""Which records of a timeline a request asks for. Owns these members of queries, and what they mean."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from engine.errors import SvcError
from engine.timeline.level import SEVERITIES, severity
from engine.timeline.query import Filter

LAST = (1 << 63) - 1
"""The highest cursor that there can be."""
MOST_TEXT = 1000
_STATUS = re.compile(r"(>=)?([1-5])(\d\d|xx)")


class LogFilter(BaseModel):
    """All that is given has to hold.

    `level` is the lowest. `status` of requests: `404`, `5xx`, `>=400`. `text` is searched in what a record
    says (a request's method, target, status, code and detail; else body and attributes as `key=value`), with
    letters a-z in capitals or not. `roots` leaves out the spans that a mount led to.
    """

    model_config = ConfigDict(extra="forbid")
    resource: str | None = None
    level: str | None = None
    request: str | None = None
    status: Annotated[str, StringConstraints(pattern=f"^{_STATUS.pattern}$")] | None = None
    text: str | None = Field(None, min_length=1, max_length=MOST_TEXT)
    roots: bool = False

    def filter(self) -> Filter:
        """Return it as the timeline takes it. Raises `SvcError`."""
        least = None
        if self.level is not None:
            least = severity(self.level)
            if least is None:
                names = ", ".join(each.lower() for each in SEVERITIES)
                raise SvcError(f'there is no level "{self.level}"', f"There are {names}.", code="invalid")
        return Filter(
            self.resource,
            self.request,
            least,
            text=self.text,
            statuses=_statuses(self.status) if self.status is not None else None,
            roots=self.roots,
        )


def _statuses(text: str) -> tuple[int, int]:
    match = _STATUS.fullmatch(text)
    assert match is not None
    beyond, hundred, rest = match.groups()
    first = int(hundred + rest.replace("x", "0"))
    return first, 599 if beyond else first + (99 if rest == "xx" else 0)
