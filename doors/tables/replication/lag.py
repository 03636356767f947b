"""How long the copies of this node need to get what the log has."""

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

from doors.tables.replication.replica import Replica
from engine.errors import SvcError
from engine.replication import ReplicatedLog

ASK_SECONDS = 1.0
WAIT_SECONDS = 0.5
"""How long a measurement waits for a copy."""
MAX_REPLICAS = 200
"""Maximum copies that one measurement asks about."""


class _Target(NamedTuple):
    """An entry that a copy lacked at a time of the monotonic clock."""

    sequence: int
    since: float


class LagMeter:
    """Measures copies. Use on the event loop of the log."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._targets: dict[str, _Target] = {}

    async def measure(self, replicas: Mapping[str, Replica]) -> dict[str, int]:
        """Return lags in ms, of at most `MAX_REPLICAS`, without those for which the log does not answer."""
        asked = list(replicas.items())[:MAX_REPLICAS]
        measured = await asyncio.gather(*(self._measure(name, replica) for name, replica in asked))
        return {name: lag for (name, _), lag in zip(asked, measured, strict=True) if lag is not None}

    async def _measure(self, name: str, replica: Replica) -> int | None:
        target = self._targets.pop(name, None)
        if target is None or replica.position >= target.sequence:
            since = time.monotonic()
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    target = _Target(await self._log.last(name), since)
            except (SvcError, TimeoutError):
                return None
            if replica.position >= target.sequence:
                return 0
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await replica.reach(target.sequence)
        except (SvcError, TimeoutError):
            self._targets[name] = target
        return int((time.monotonic() - target.since) * 1000)
