"""Rates of each resource over the last minute: requests, failures and durations, in memory.

A sliding window with one sum per second and resource. The cost of a record is constant; no file is read.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from engine.manifest.model import Project
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord

WINDOW_SECONDS = 60
_BUCKET_BITS = 3
"""Bits of precision below the highest bit of a duration: buckets are accurate to 7 %."""
_MAX_OPEN_FRONTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Activity of a resource in a window. Rates are per second.

    `failures` is the share of requests with a status of 500 and above, without the responses of svc before
    the first build (`not-ready`). `p95_ns` is `None` without requests, and `peak_memory` (bytes) without
    guests. `records` are the structured records sent by its guests. `history` is the number of requests in
    each second of the window, oldest first.
    """

    requests: float = 0.0
    failures: float = 0.0
    p95_ns: int | None = None
    peak_memory: int | None = None
    records: float = 0.0
    history: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RateWindow:
    """The rate of each active resource, and the requests per second by front and mount pattern."""

    seconds: float
    resources: dict[str, Rate]
    mounts: dict[tuple[str, str], float]


@dataclass(slots=True)
class _Sum:
    requests: int = 0
    failures: int = 0
    peak: int = -1
    records: int = 0
    durations: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Second:
    number: int
    sums: dict[str, _Sum] = field(default_factory=dict)
    mounts: dict[tuple[str, str], int] = field(default_factory=dict)


class RateMeter:
    """A follower of a timeline; call and query it from any thread."""

    def __init__(
        self, project: Callable[[], Project | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`project` returns the project as served, for its mounts; `clock` returns seconds."""
        self._project = project
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._second = _Second(int(self._began))
        self._seconds: deque[_Second] = deque([self._second], WINDOW_SECONDS + 1)
        self._open_fronts: set[str] = set()  # spans of fronts whose own records are still to follow

    def __call__(self, record: Record) -> None:
        kind = type(record)
        if kind is LineRecord or kind is PlatformRecord:
            return
        now = int(self._clock())
        with self._lock:
            second = self._second
            if now != second.number:
                second = self._second = _Second(now)
                self._seconds.append(second)
            activity = second.sums.get(record.resource)
            if activity is None:
                activity = second.sums[record.resource] = _Sum()
            if kind is StructuredRecord:
                activity.records += 1
            else:
                self._request(record, second, activity)  # type: ignore[arg-type]

    def _request(self, record: RequestRecord, second: _Second, activity: _Sum) -> None:
        activity.requests += 1
        if record.status >= 500 and record.code != "not-ready":
            activity.failures += 1
        peak = record.peak_memory
        if peak is not None and peak > activity.peak:
            activity.peak = peak
        wall = _bucket(record.wall_ns)
        activity.durations[wall] = activity.durations.get(wall, 0) + 1
        handed = self._open_fronts
        if handed and record.span_id in handed:
            handed.remove(record.span_id)
            # The record of a front does not name the mount by which it dispatched the request.
            project = self._project()
            front = project.resources.get(record.resource) if project is not None else None
            if front is not None and (mount := front.mount_of(record.target.partition("?")[0])) is not None:
                edge = record.resource, mount.pattern
                second.mounts[edge] = second.mounts.get(edge, 0) + 1
        if not record.root:
            if len(handed) >= _MAX_OPEN_FRONTS:  # their processes were killed
                handed.clear()
            handed.add(record.parent)

    def window(self, seconds: int = WINDOW_SECONDS) -> RateWindow:
        """Return the rates of the last `seconds` (maximum `WINDOW_SECONDS`), or since creation if shorter."""
        now = self._clock()
        first = int(now) - seconds
        with self._lock:
            seconds_in_window = [second for second in self._seconds if second.number >= first]
            elapsed = max(1.0, min(now - first, now - self._began))
            names = {name for second in seconds_in_window for name in second.sums}
            resources = {
                name: _rate(
                    {s.number: s.sums[name] for s in seconds_in_window if name in s.sums},
                    elapsed,
                    range(first + 1, int(now) + 1),
                )
                for name in names
                if name
            }
            mounts: dict[tuple[str, str], float] = {}
            for second in seconds_in_window:
                for edge, count in second.mounts.items():
                    mounts[edge] = mounts.get(edge, 0.0) + count / elapsed
        return RateWindow(elapsed, resources, mounts)


def _rate(sums: Mapping[int, _Sum], elapsed: float, window: Iterable[int]) -> Rate:
    """Return the rate for the sums of each active second; `window` has the numbers of all seconds."""
    requests = failures = records = 0
    peak, walls = -1, dict[int, int]()
    for each in sums.values():
        requests += each.requests
        failures += each.failures
        records += each.records
        peak = max(peak, each.peak)
        for wall, count in each.durations.items():
            walls[wall] = walls.get(wall, 0) + count
    return Rate(
        requests=requests / elapsed,
        failures=failures / requests if requests else 0.0,
        p95_ns=_percentile(walls, requests, 0.95),
        peak_memory=peak if peak >= 0 else None,
        records=records / elapsed,
        history=tuple(sums[number].requests if number in sums else 0 for number in window),
    )


def _bucket(wall_ns: int) -> int:
    """Return the bucket of a duration: eight buckets per power of two."""
    shift = wall_ns.bit_length() - _BUCKET_BITS - 1
    return (shift << _BUCKET_BITS) + (wall_ns >> shift) if shift > 0 else wall_ns


def _percentile(walls: dict[int, int], count: int, share: float) -> int | None:
    remaining = count * share
    for wall in sorted(walls):
        remaining -= walls[wall]
        if remaining <= 0:
            shift = (wall >> _BUCKET_BITS) - 1
            if shift <= 0:
                return wall
            low = (wall - (shift << _BUCKET_BITS)) << shift
            return low + (1 << shift >> 1)
    return None
