"""Records for the tests of the timeline."""

from engine.timeline.record import LineRecord, PlatformRecord, RequestRecord, StructuredRecord

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND
REQUEST = RequestRecord(
    *(BEGAN, "01id", "trace", "span", "parent", "web", "GET", "/a?b=c", 200, "", ""),
    *(5_000_000, 2_000_000, 65_536, 3, 6, True),
)
SAID = StructuredRecord(BEGAN, "01id", "trace", "span", "web", "WARN", "low", {"left": "3", "ü": "日本"})
LINE = LineRecord(BEGAN, "01id", "web", "stdout", "hello")
BUILT = PlatformRecord(BEGAN, "api", "INFO", "ready")


def line(number: int, resource: str = "web") -> LineRecord:
    return LineRecord(BEGAN + number, "", resource, "stdout", str(number))
