"""Adds up what requests took, by minute and Resource. Owns the sums; knows no file and no clock."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import reduce

from engine.timeline.record import Record, RequestRecord, failed

Key = tuple[int, str]
"""A minute (whole minutes since the Unix epoch) and a Resource's name."""

MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class UsageCount:
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

    def __add__(self, other: "UsageCount") -> "UsageCount":
        return UsageCount(
            self.requests + other.requests,
            self.failures + other.failures,
            self.compute_ns + other.compute_ns,
            self.wall_ns + other.wall_ns,
            max(self.peak_memory, other.peak_memory),
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
        )


def sum_counts(counts: Iterable[UsageCount]) -> UsageCount:
    """Return what these are together."""
    return reduce(UsageCount.__add__, counts, UsageCount())


class Aggregator:
    """A follower of the timeline; may be called from any thread. A request counts when it is over.

    Records are only put down as they come, and added up when the sums are asked for: a thousand in a row take
    a quarter of the time that they take one by one, between other work.
    """

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque()
        self._restored: dict[Key, UsageCount] = {}

    def __call__(self, record: Record) -> None:
        """Count a request; other records, and requests for no Resource, are passed over."""
        if isinstance(record, RequestRecord) and record.resource:
            self._records.append(record)

    def take(self) -> dict[Key, UsageCount]:
        """Return what was counted since the last time."""
        sums = {key: list(astuple(count)) for key, count in self._restored.items()}
        self._restored = {}
        for _ in range(len(self._records)):
            record = self._records.popleft()
            key = ((record.time_ns + record.wall_ns) // MINUTE_NS, record.resource)
            if key not in sums:
                sums[key] = [0] * 7
            _add(sums[key], record)
        return {key: UsageCount(*numbers) for key, numbers in sums.items()}

    def restore(self, counts: Mapping[Key, UsageCount], most: int) -> None:
        """Add what could not be kept to what is counted; of more than `most` keys the oldest are lost."""
        merged = dict(counts)
        for key, count in self.take().items():
            merged[key] = merged.get(key, UsageCount()) + count
        self._restored = dict(sorted(merged.items())[-most:])


def _add(sums: list[int], record: RequestRecord) -> None:
    """Add what a request took to the numbers of a `Count`; a new one each time takes three times as long."""
    sums[0] += 1
    sums[1] += failed(record)
    sums[2] += record.compute_ns
    sums[3] += record.wall_ns
    sums[4] = max(sums[4], record.peak_memory or 0)
    sums[5] += record.bytes_in
    sums[6] += record.bytes_out
