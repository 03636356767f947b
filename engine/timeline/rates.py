"""How busy each Resource is: requests, failures and times of the last minute, from the timeline as it comes.

Owns a window of one sum a second and Resource. A record costs the same however many there are; nothing is
read from a file.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.manifest.model import Mount, Project
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord

WINDOW_SECONDS = 60
"""How far back the window goes."""
_BUCKET_BITS = 3
"""Binary digits below the first that tell times apart: they are known to within 7 %."""
_MAX_OPEN_FRONTS = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """What a Resource did in a window. Rates are per second.

    `failures` is the share of the requests with a status of 500 and up; `p95_ns` and `peak_memory` (bytes)
    are `None` without requests, or without guests. `records` are those that its guests logged.
    """

    requests: float = 0.0
    failures: float = 0.0
    p95_ns: int | None = None
    peak_memory: int | None = None
    records: float = 0.0


@dataclass(frozen=True, slots=True)
class RateWindow:
    """The rates of each Resource of which there were any, and the requests a second by front and pattern."""

    seconds: float
    resources: dict[str, Rate]
    mounts: dict[tuple[str, str], float]


class _Sum:
    """What a Resource did in one second."""

    __slots__ = ("durations", "failures", "peak", "records", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.failures = 0
        self.peak = -1
        self.records = 0
        self.durations: dict[int, int] = {}


class _Second:
    """What happened in one second."""

    __slots__ = ("mounts", "number", "sums")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sums: dict[str, _Sum] = {}
        self.mounts: dict[tuple[str, str], int] = {}


class RateMeter:
    """A follower of a timeline; may be called, and asked, from any thread."""

    def __init__(
        self, project: Callable[[], Project | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`project` returns the Project as it is served, whose mounts count; `clock` counts seconds."""
        self._project = project
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._second = _Second(int(self._began))
        self._seconds: deque[_Second] = deque([self._second], WINDOW_SECONDS + 1)
        self._open_fronts: set[str] = set()  # spans of fronts whose own records are yet to come

    def __call__(self, record: Record) -> None:
        """Take one record."""
        kind = type(record)
        if kind is LineRecord or kind is PlatformRecord:
            return
        now = int(self._clock())
        with self._lock:
            second = self._second
            if now != second.number:
                second = self._second = _Second(now)
                self._seconds.append(second)
            found = second.sums.get(record.resource)
            if found is None:
                found = second.sums[record.resource] = _Sum()
            if kind is StructuredRecord:
                found.records += 1
            else:
                self._request(record, second, found)  # type: ignore[arg-type]

    def _request(self, record: RequestRecord, second: _Second, found: _Sum) -> None:
        found.requests += 1
        if record.status >= 500:
            found.failures += 1
        peak = record.peak_memory
        if peak is not None and peak > found.peak:
            found.peak = peak
        wall = _bucket(record.wall_ns)
        found.durations[wall] = found.durations.get(wall, 0) + 1
        handed = self._open_fronts
        if handed and record.span_id in handed:
            handed.remove(record.span_id)
            if (mount := self._mount(record)) is not None:
                edge = record.resource, mount.pattern
                second.mounts[edge] = second.mounts.get(edge, 0) + 1
        if not record.root:
            if len(handed) >= _MAX_OPEN_FRONTS:  # of fronts whose processes were killed
                handed.clear()
            handed.add(record.parent)

    def _mount(self, record: RequestRecord) -> Mount | None:
        """Return the mount that a front handed a request on through; the record does not tell."""
        project = self._project()
        front = project.resources.get(record.resource) if project is not None else None
        return front.mount_of(record.target.partition("?")[0]) if front is not None else None

    def window(self, seconds: int = WINDOW_SECONDS) -> RateWindow:
        """Return the rates of the last `seconds`, at most `SECONDS`, or of the time since this was made."""
        now = self._clock()
        first = int(now) - seconds
        with self._lock:
            kept = [second for second in self._seconds if second.number >= first]
            elapsed = max(1.0, min(now - first, now - self._began))
            names = {name for second in kept for name in second.sums}
            resources = {
                name: _rate([s.sums[name] for s in kept if name in s.sums], elapsed) for name in names if name
            }
            mounts: dict[tuple[str, str], float] = {}
            for second in kept:
                for edge, count in second.mounts.items():
                    mounts[edge] = mounts.get(edge, 0.0) + count / elapsed
        return RateWindow(elapsed, resources, mounts)


def _rate(sums: Iterable[_Sum], seconds: float) -> Rate:
    requests = failures = records = 0
    peak, walls = -1, dict[int, int]()
    for each in sums:
        requests += each.requests
        failures += each.failures
        records += each.records
        peak = max(peak, each.peak)
        for wall, count in each.durations.items():
            walls[wall] = walls.get(wall, 0) + count
    return Rate(
        requests / seconds,
        failures / requests if requests else 0.0,
        _percentile(walls, requests, 0.95),
        peak if peak >= 0 else None,
        records / seconds,
    )


def _bucket(wall_ns: int) -> int:
    """Return the number of a range of times: eight to each power of two."""
    shift = wall_ns.bit_length() - _BUCKET_BITS - 1
    return (shift << _BUCKET_BITS) + (wall_ns >> shift) if shift > 0 else wall_ns


def _middle(bucket: int) -> int:
    """Return the time in the middle of a range."""
    shift = (bucket >> _BUCKET_BITS) - 1
    if shift <= 0:
        return bucket
    low = (bucket - (shift << _BUCKET_BITS)) << shift
    return low + (1 << shift >> 1)


def _percentile(walls: dict[int, int], count: int, share: float) -> int | None:
    left = count * share
    for wall in sorted(walls):
        left -= walls[wall]
        if left <= 0:
            return _middle(wall)
    return None
