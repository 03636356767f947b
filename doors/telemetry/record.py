"""Conversion of an OTLP log record into a timeline entry: severity, time, attributes and limits."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from engine.door import Caller, LogEntry, Severity

MAX_BODY_BYTES = 64 << 10
MAX_VALUE_BYTES = 8 << 10
MAX_KEY_LENGTH = 256
MAX_ATTRIBUTES = 128
MAX_ATTRIBUTE_BYTES = 64 << 10
"""Maximum bytes of the keys and values of one record's attributes together."""

MAX_SHARED = 32
MAX_SHARED_BYTES = 8 << 10
"""Maximum attributes, and bytes of them, that a record takes from its scope, and from its resource."""

MAX_PARTS = 4096
"""Maximum records, scopes and resources in one request together."""
MAX_FIELDS = 8 * MAX_PARTS
"""Maximum fields that a parser of protobuf passes to find them."""

EARLIEST_NS = 946_684_800 * 10**9
"""2000-01-01: an earlier time means that the clock was not set."""

MAX_AHEAD_NS = 24 * 3600 * 10**9
"""Maximum distance of a record's time into the future."""

_SEVERITIES: tuple[Severity, ...] = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SEVERITY_WORDS: dict[str, Severity] = {
    **{name.lower(): name for name in _SEVERITIES},
    **{"verbose": "TRACE", "information": "INFO", "informational": "INFO", "notice": "INFO"},
    **{"warning": "WARN", "err": "ERROR", "critical": "FATAL", "alert": "FATAL", "emergency": "FATAL"},
    **{"panic": "FATAL"},
}
_HOST_PREFIXES = ("telemetry.", "process.", "host.", "os.", "service.instance.")

Value = str | bool | int | float | bytes | list["Value"] | Mapping[str, "Value"] | None
"""An OTLP AnyValue; None if it is empty."""
Pairs = Sequence[tuple[str, Value]]
Texts = Mapping[str, str]


class BadRecord(Exception):
    """An invalid record."""


class LimitExceeded(Exception):
    """A request has too many parts."""


class RecordBudget:
    """Limits the parts of one request."""

    def __init__(self) -> None:
        self._remaining = MAX_PARTS
        self._fields = MAX_FIELDS

    def take(self) -> None:
        """Count one part. Raises `LimitExceeded`."""
        self._remaining -= 1
        if self._remaining < 0:
            raise LimitExceeded

    def pass_field(self) -> None:
        """Count one field of a part, which may be skipped. Raises `LimitExceeded`."""
        self._fields -= 1
        if self._fields < 0:
            raise LimitExceeded


@dataclass(frozen=True, slots=True)
class GuestRecord:
    """The fields of opentelemetry.proto.logs.v1.LogRecord that are read; times in ns, 0 for none.

    `trace_id` and `span_id` are lower-case hex; they are the guest's claims and are not used for correlation.
    """

    time_ns: int = 0
    observed_ns: int = 0
    _: KW_ONLY
    severity: int = 0
    severity_text: str = ""
    body: Value = None
    attributes: Pairs = ()
    dropped: int = 0
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""


def entry_of(record: GuestRecord, shared: Texts, now_ns: int, caller: Caller) -> LogEntry:
    """Return the entry of a record; `around` are the attributes of its scope and resource."""
    severity = _severity(record)
    attributes, dropped = limit_attributes(
        [*record.attributes, *_other_fields(record, severity, caller)], MAX_ATTRIBUTES, MAX_ATTRIBUTE_BYTES
    )
    if dropped + record.dropped:
        attributes["otel.dropped_attributes_count"] = str(dropped + record.dropped)
    for key, text in shared.items():
        attributes.setdefault(key, text)
    body = shorten(to_text(record.body), MAX_BODY_BYTES)
    return LogEntry(_time(record, now_ns), severity, body, attributes, caller)


def resource_attributes(attributes: Pairs) -> Texts:
    """Return the attributes of a resource, without those of the host."""
    pairs = [
        (key, value)
        for key, value in attributes
        if not key.startswith(_HOST_PREFIXES)
        and not (key == "service.name" and isinstance(value, str) and value.startswith("unknown_service"))
    ]
    return limit_attributes(pairs, MAX_SHARED, MAX_SHARED_BYTES)[0]


def scope_attributes(name: str, version: str, attributes: Pairs, resource: Texts) -> Texts:
    """Return the attributes of a scope, merged over those of its resource."""
    names = (("otel.scope.name", name), ("otel.scope.version", version))
    pairs = [*((key, value) for key, value in names if value), *attributes]
    limited = limit_attributes(pairs, MAX_SHARED, MAX_SHARED_BYTES)[0]
    return {**limited, **{key: text for key, text in resource.items() if key not in limited}}


def _severity(record: GuestRecord) -> Severity:
    """Return the severity of SeverityNumber 1–24, four to a name; without one, by its text."""
    if 1 <= record.severity <= 24:
        return _SEVERITIES[(record.severity - 1) // 4]
    return _SEVERITY_WORDS.get(record.severity_text.strip().lower(), "INFO")


def _other_fields(record: GuestRecord, severity: Severity, caller: Caller) -> Pairs:
    """Return the other fields of a record as attributes, without those that the entry has."""
    text = record.severity_text.strip()
    fields = (
        ("event.name", record.event_name),
        ("severity_text", text if text.upper() != severity else ""),
        ("trace_id", record.trace_id if record.trace_id != caller.trace_id else ""),
        ("span_id", record.span_id if record.span_id != caller.span_id else ""),
    )
    return [(key, value) for key, value in fields if value]


def limit_attributes(pairs: Pairs, max_count: int, max_bytes: int) -> tuple[dict[str, str], int]:
    """Return attributes as text, the first of each key, and the number of those beyond the limits."""
    texts: dict[str, str] = {}
    dropped = size = 0
    for raw, value in pairs:
        key = clean(raw)
        if key in texts:
            continue
        text = shorten(to_text(value), MAX_VALUE_BYTES)
        bytes_more = len(key.encode()) + len(text.encode())
        if not 0 < len(key) <= MAX_KEY_LENGTH or len(texts) == max_count or size + bytes_more > max_bytes:
            dropped += 1
            continue
        texts[key] = text
        size += bytes_more
    return texts, dropped


def _time(record: GuestRecord, now_ns: int) -> int:
    for time_ns in (record.time_ns, record.observed_ns):
        if EARLIEST_NS <= time_ns <= now_ns + MAX_AHEAD_NS:
            return time_ns
    return now_ns


def clean(text: str) -> str:
    """Return the text with U+FFFD for the halves of surrogate pairs that JSON can smuggle in."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def shorten(raw: str, limit: int) -> str:
    """Return the text in at most `limit` bytes of UTF-8, with a mark if it was cut."""
    text = clean(raw)
    if len(text) * 4 <= limit or len(data := text.encode()) <= limit:
        return text
    return f"{data[:limit].decode(errors='ignore')}… ({len(data)} bytes)"


def to_text(value: Value) -> str:
    """Return a value as text: bytes as base64, arrays and maps as JSON, None as empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _number(value: float) -> str:
    """Return a double as in JavaScript: 1e3 is `1000`; NaN and infinities by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not an AnyValue")
