"""Records for the tests of the timeline."""

from engine.timeline.record import LineRecord, PlatformRecord, RequestRecord, StructuredRecord

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND
REQUEST = RequestRecord(
    time_ns=BEGAN,
    request_id="01id",
    trace_id="trace",
    span_id="span",
    parent="parent",
    resource="web",
    method="GET",
    target="/a?b=c",
    status=200,
    code="",
    detail="",
    wall_ns=5_000_000,
    compute_ns=2_000_000,
    peak_memory=65_536,
    bytes_in=3,
    bytes_out=6,
    root=True,
)
STRUCTURED = StructuredRecord(
    time_ns=BEGAN,
    request_id="01id",
    trace_id="trace",
    span_id="span",
    resource="web",
    severity="WARN",
    body="low",
    attributes={"left": "3", "ü": "日本"},
)
LINE = LineRecord(BEGAN, "01id", "web", "stdout", "hello")
PLATFORM = PlatformRecord(BEGAN, "api", "INFO", "ready")


def line(number: int, resource: str = "web") -> LineRecord:
    return LineRecord(BEGAN + number, "", resource, "stdout", str(number))
