"""Record types of the timeline, their severity levels, and the definition of a failed request."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, get_args

from engine.door import Severity
from engine.grant import Grant
from engine.trace import Call

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""In ascending order."""
BUILT = "built in"
"""Beginning of the text of a platform record about a build."""
INTERRUPTED = frozenset({"aborted", "client-gone", "stopping"})
"""Outcomes of requests that ended early without a failure of the guest."""
_NO_FAILURES = INTERRUPTED | {"", "body-too-large", "not-found"}


@dataclass(slots=True)
class RequestRecord:
    """One span: a request as seen by one resource. Written when the span ends, and not changed after it.

    It is not frozen, because a frozen dataclass takes three times as long to create.

    A call dispatched through a mount is a span of its own. It has the same `request_id` and `trace_id`, its
    `parent` is the front's `span_id`, and it is written before the front's span. `root` marks the span
    started by the client's request; its `parent` is the client's own span, or empty. `time_ns` is the start
    (Unix epoch); `code` is the platform's error code or empty; `target` is path and query. `calls` are those
    that the resource's code made, and `calls_omitted` counts further ones.
    """

    time_ns: int
    request_id: str
    _: KW_ONLY
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
    calls: tuple[Call, ...] = ()
    calls_omitted: int = 0


@dataclass(frozen=True, slots=True)
class LineRecord:
    """One line printed by a guest, without its newline.

    `trace_id` and `span_id` are those of the request at the resource. They are not stored.
    """

    time_ns: int
    request_id: str
    resource: str
    stream: Literal["stdout", "stderr"]
    text: str
    _: KW_ONLY
    trace_id: str = field(default="", compare=False)
    span_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PlatformRecord:
    """An event of the platform: a build, a denied call, a limit. `grant` allows what was denied."""

    time_ns: int
    resource: str
    level: Severity
    text: str
    request_id: str = ""
    _: KW_ONLY
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredRecord:
    """One log record sent by a guest. `time_ns` is the guest's own timestamp (Unix epoch)."""

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
    """Return the level of a case-insensitive name, `None` if it is unknown."""
    return next((severity for severity in SEVERITIES if severity == text.upper()), None)


def level(record: Record) -> Severity:
    """Return a record's level: ERROR for a failed request, WARN for a line on stderr."""
    if isinstance(record, RequestRecord):
        return "ERROR" if failed(record) else "INFO"
    if isinstance(record, LineRecord):
        return "WARN" if record.stream == "stderr" else "INFO"
    return record.level if isinstance(record, PlatformRecord) else record.severity


def failed(record: RequestRecord) -> bool:
    """Return whether a request failed for a reason other than its client."""
    return record.status >= 500 or record.code not in _NO_FAILURES
