"""How much each record matters: the level that `--level` and the Console filter by."""

from typing import get_args

from engine.door import Severity
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the least to the most."""
_NO_FAILURES = frozenset({"", "body-too-large", "client-gone", "not-found", "stopping"})


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
