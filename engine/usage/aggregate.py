"""Sums of request costs, by minute and resource."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, astuple, dataclass

from engine.timeline.record import Record, RequestRecord, failed

Key = tuple[int, str]
"""A minute (whole minutes since the Unix epoch) and a resource's name."""

MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class UsageCount:
    """Cost of a number of requests.

    Times in nanoseconds, sizes in bytes; `peak_memory` is the largest of one request, 0 if unknown.
    `failures` counts requests that failed for a reason other than the client.
    """

    requests: int = 0
    failures: int = 0
    _: KW_ONLY
    compute_ns: int = 0
    wall_ns: int = 0
    peak_memory: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "UsageCount":
        """Return the count of numbers in the order of the fields."""
        return cls(**dict(zip(cls.__slots__, numbers, strict=True)))

    def __add__(self, other: "UsageCount") -> "UsageCount":
        return UsageCount(
            self.requests + other.requests,
            self.failures + other.failures,
            compute_ns=self.compute_ns + other.compute_ns,
            wall_ns=self.wall_ns + other.wall_ns,
            peak_memory=max(self.peak_memory, other.peak_memory),
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
        )


class Aggregator:
    """A follower of the timeline; may be called from any thread. A request counts when it ends.

    Records are queued and added up when the sums are requested: a thousand at once take a quarter of the time
    that they would take one by one, between other work.
    """

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque()
        self._restored: dict[Key, UsageCount] = {}

    def __call__(self, record: Record) -> None:
        """Queue a request of a resource; other records are ignored."""
        if isinstance(record, RequestRecord) and record.resource:
            self._records.append(record)

    def take(self) -> dict[Key, UsageCount]:
        """Return the sums since the last call."""
        sums = {key: list(astuple(count)) for key, count in self._restored.items()}
        self._restored = {}
        for _ in range(len(self._records)):
            record = self._records.popleft()
            key = ((record.time_ns + record.wall_ns) // MINUTE_NS, record.resource)
            if key not in sums:
                sums[key] = [0] * 7
            _add(sums[key], record)
        return {key: UsageCount.of(numbers) for key, numbers in sums.items()}

    def restore(self, counts: Mapping[Key, UsageCount], limit: int) -> None:
        """Add sums that could not be stored; above `limit` keys, the oldest are lost."""
        merged = dict(counts)
        for key, count in self.take().items():
            merged[key] = merged.get(key, UsageCount()) + count
        self._restored = dict(sorted(merged.items())[-limit:])


def _add(sums: list[int], record: RequestRecord) -> None:
    """Add a request to the numbers of a `UsageCount`; a new one each time would take three times as long."""
    sums[0] += 1
    sums[1] += failed(record)
    sums[2] += record.compute_ns
    sums[3] += record.wall_ns
    sums[4] = max(sums[4], record.peak_memory or 0)
    sums[5] += record.bytes_in
    sums[6] += record.bytes_out
