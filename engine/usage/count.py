"""Adds up what requests took, by minute and Resource. Owns the sums; knows no file and no clock."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import reduce

from engine.timeline.level import failed
from engine.timeline.record import Record, RequestRecord

Key = tuple[int, str]
"""A minute (whole minutes since the Unix epoch) and a Resource's name."""

MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Count:
    """What a number of requests took together.

    Times in nanoseconds, sizes in bytes; `peak_memory` is the largest that one of them had, 0 when none is
    known. `failures` are those that the Resource or the service is to blame for.
    """

    requests: int = 0
    failures: int = 0
    compute_ns: int = 0
    wall_ns: int = 0
    peak_memory: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.requests + other.requests,
            self.failures + other.failures,
            self.compute_ns + other.compute_ns,
            self.wall_ns + other.wall_ns,
            max(self.peak_memory, other.peak_memory),
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
        )


def total(counts: Iterable[Count]) -> Count:
    """Return what these are together."""
    return reduce(Count.__add__, counts, Count())


class Counter:
    """A follower of the timeline; may be called from any thread. A request counts when it is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A list that is added to costs a third of the time of a new Count a request.
        self._sums: dict[Key, list[int]] = {}

    def __call__(self, record: Record) -> None:
        """Count a request; other records, and requests for no Resource, are passed over."""
        if not isinstance(record, RequestRecord) or not record.resource:
            return
        key = ((record.time_ns + record.wall_ns) // MINUTE_NS, record.resource)
        peak = record.peak_memory or 0
        with self._lock:
            sums = self._sums.get(key)
            if sums is None:
                sums = self._sums[key] = [0] * 7
            sums[0] += 1
            sums[1] += failed(record)
            sums[2] += record.compute_ns
            sums[3] += record.wall_ns
            if peak > sums[4]:
                sums[4] = peak
            sums[5] += record.bytes_in
            sums[6] += record.bytes_out

    def take(self) -> dict[Key, Count]:
        """Return what was counted since the last time."""
        with self._lock:
            sums, self._sums = self._sums, {}
        return {key: Count(*numbers) for key, numbers in sums.items()}

    def give_back(self, counts: Mapping[Key, Count], most: int) -> None:
        """Add what could not be kept to what is counted; of more than `most` keys the oldest are lost."""
        with self._lock:
            merged = dict(counts)
            for key, numbers in self._sums.items():
                merged[key] = merged.get(key, Count()) + Count(*numbers)
            self._sums = {key: list(astuple(count)) for key, count in sorted(merged.items())[-most:]}
