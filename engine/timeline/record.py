"""What the timeline is made of: one immutable value a record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from engine.door import Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the least to the most."""
_NO_FAILURES = frozenset({"", "body-too-large", "client-gone", "not-found", "stopping"})


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One span: a request as one Resource saw it. Written when the span ends.

    A dispatched call through a mount is a span of its own: same `request_id` and `trace_id`, its `parent`
    is the front's `span_id`; it ends, and is written, before the front's. `root` tells the span that the
    client's request began with; its `parent` is the caller's own span, or empty. `time_ns` is when it
    began (Unix epoch); `code` is the platform's error code or empty; `target` is path and query.
    """

    time_ns: int
    request_id: str
    trace_id: str
    span_id: str
    parent: str
    resource: str
    method: str
    target: str
    status: int
    code: str
    detail: str
    wall_ns: int
    compute_ns: int
    peak_memory: int | None
    bytes_in: int
    bytes_out: int
    root: bool = True


@dataclass(frozen=True, slots=True)
class LineRecord:
    """One line that a guest printed, without its newline."""

    time_ns: int
    request_id: str
    resource: str
    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class PlatformRecord:
    """Something the platform did or refused: a build, a denied call, a limit."""

    time_ns: int
    resource: str
    level: Severity
    text: str
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class StructuredRecord:
    """One log record that a guest sent. `time_ns` is the guest's own word for when (Unix epoch)."""

    time_ns: int
    request_id: str
    trace_id: str
    span_id: str
    resource: str
    severity: Severity
    body: str
    attributes: Mapping[str, str]


Record = RequestRecord | LineRecord | PlatformRecord | StructuredRecord


def severity(text: str) -> Severity | None:
    """Return the level of a name in capitals or not, `None` where there is no such."""
    return next((severity for severity in SEVERITIES if severity == text.upper()), None)


def level(record: Record) -> Severity:
    """Return a record's level: a failed request is an error, what a guest prints to stderr a warning."""
    if isinstance(record, RequestRecord):
        return "ERROR" if failed(record) else "INFO"
    if isinstance(record, LineRecord):
        return "WARN" if record.stream == "stderr" else "INFO"
    return record.level if isinstance(record, PlatformRecord) else record.severity


def failed(record: RequestRecord) -> bool:
    """Whether a request failed for a reason that is not its client's."""
    return record.status >= 500 or record.code not in _NO_FAILURES
