"""Turns of projects on the event loop, so that many runs of one project do not delay the others.

Guests that start or resume compute on the loop's thread. Once they have computed for `MAX_TURN_NS` in one
iteration of the loop, further runs queue. Each iteration then admits a few of them, projects in turn.
"""

import asyncio
from collections import OrderedDict, deque

MAX_TURN_NS = 10_000_000
"""How long guests may compute in one iteration of the loop before further runs queue."""
ADMITTED_NS = 2_500_000
"""Computing time that each iteration admits from the queue, by the mean of recent polls."""
_MEAN_SHIFT = 3


class LoopTurns:
    """Use it on the event loop's thread."""

    def __init__(self) -> None:
        self.crowded = False
        """Whether a run must `wait` before its guest computes on the loop."""
        self._used_ns = self._mean_ns = 0
        self._scheduled = False
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def record(self, nanoseconds: int) -> None:
        """Add to the time that guests computed in this iteration."""
        self._used_ns += nanoseconds
        self._mean_ns += (nanoseconds - self._mean_ns) >> _MEAN_SHIFT
        if self._used_ns > MAX_TURN_NS:
            self.crowded = True
        if not self._scheduled:
            self._schedule()

    async def wait(self, project: str) -> None:
        """Wait for a turn of the project."""
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(project, deque()).append(turn)
        if not self._scheduled:
            self._schedule()
        await turn

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._used_ns, self._scheduled = 0, False
        if not self._queues:
            self.crowded = False
            return
        for _ in range(max(1, ADMITTED_NS // max(1, self._mean_ns))):
            if not self._admit_next():
                break
        self.crowded = bool(self._queues)
        if self.crowded:
            self._schedule()

    def _admit_next(self) -> bool:
        """Admit the first run of the project whose last turn is longest ago; return whether one waits."""
        while self._queues:
            project, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[project] = queue
            if not turn.done():  # It is done if the run was canceled.
                turn.set_result(None)
                return True
        return False
