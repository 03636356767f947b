"""Limit of the memory of statements that collect values, such as `select json_group_array(a) from t`.

SQLite collects the values of these functions in memory, up to 2 GiB for each, and has no limit for it. It
counts the memory of the whole process only. So once such statements have allocated much together, they take
turns: what is allocated during a turn belongs to its statement. Other statements run beside them; what they
allocate is limited by their caches.
"""

import threading
import time
from collections import deque

import apsw

from engine.files.statement_watch import Watched

COLLECTING_FUNCTIONS = frozenset(
    {
        "json_group_array",
        "json_group_object",
        "jsonb_group_array",
        "jsonb_group_object",
        "match",
        "median",
        "percentile",
        "percentile_cont",
        "percentile_disc",
    }
)
"""Functions whose memory has no other limit. A search has the positions of all words of its phrases."""
MAX_COLLECTED_BYTES = 64 << 20
"""Maximum memory of a statement of a guest, or of one that reads the timeline."""
MAX_SHARED_BYTES = 64 << 20
"""Memory that the statements of the process allocate together before they take turns."""
TURN_SECONDS = 0.02
"""Duration of a turn while others wait."""
LATE_SECONDS = 1.0
"""How long a statement may continue while another one has its turn."""


class StatementMemory(Watched):
    """The memory of the statements of one connection. As a context, it is that of a statement.

    Use it on the thread that runs the statement, with `give_way` as the progress handler. `oversized` is true
    if the last statement was interrupted for its memory.
    """

    def __init__(self, connection: apsw.Connection, limit: int = MAX_COLLECTED_BYTES) -> None:
        super().__init__(connection, _TURNS.condition)
        self._limit = limit
        self._collected = 0
        self._used_before: int | None = None
        self.turn_end = 0.0
        self.oversized = False

    def __enter__(self) -> "StatementMemory":
        self._collected, self.oversized = 0, False
        _TURNS.enter(self)
        self.watch()
        return self

    def __exit__(self, *error: object) -> None:
        self.unwatch()
        _TURNS.leave(self)

    def give_way(self) -> bool:
        """Wait while other statements have their turns, and return False: this does not stop a statement."""
        if self.active:
            _TURNS.give_way(self)
        return False

    def count(self, alone: bool) -> None:
        """Begin to count what is allocated, or end it, as the statement runs alone or not."""
        used = apsw.memory_used()
        if self._used_before is not None:
            self._collected += used - self._used_before
        self._used_before = used if alone else None

    def is_over_limit(self) -> bool:
        """Return whether the statement has collected too much, or does not give others their turns."""
        if self._used_before is not None:
            self.count(alone=True)
        self.oversized = self.oversized or self._collected > self._limit or _TURNS.is_late(self)
        return self.oversized


class _Turns:
    """The statements of the process in the order of their turns, and those of them that run."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._order: deque[StatementMemory] = deque()
        self._running: set[StatementMemory] = set()
        self._used_before = 0
        self._began: float | None = None
        """When the turns began."""

    def enter(self, memory: StatementMemory) -> None:
        """Begin a statement: at once, or with its first turn."""
        with self.condition:
            if not self._order:
                self._used_before = apsw.memory_used()
            self._order.append(memory)
            self._wait(memory)

    def leave(self, memory: StatementMemory) -> None:
        """End a statement."""
        with self.condition:
            self._order.remove(memory)
            self._stop(memory)

    def give_way(self, memory: StatementMemory) -> None:
        """Wait if the statement has had its turn, or it is that of another one."""
        if len(self._order) == 1:
            return
        with self.condition:
            if not self._take_turns() or (memory is self._order[0] and time.monotonic() < memory.turn_end):
                return
            if memory is self._order[0]:
                self._order.rotate(-1)
            self._stop(memory)
            self._skip_running()
            self._wait(memory)

    def is_late(self, memory: StatementMemory) -> bool:
        """Return whether a statement has not given way for too long."""
        if not self._take_turns() or self._began is None or memory not in self._running:
            return False
        late = time.monotonic() - max(memory.turn_end, self._began)
        if late > TURN_SECONDS and memory is self._order[0]:
            self._skip_running()
        return late > LATE_SECONDS

    def _skip_running(self) -> None:
        """Give the next turn to a statement that waits."""
        for _ in range(len(self._order)):
            if self._order[0] not in self._running:
                self.condition.notify_all()
                return
            self._order.rotate(-1)

    def _stop(self, memory: StatementMemory) -> None:
        self._running.discard(memory)
        memory.count(alone=False)
        self._count()
        self.condition.notify_all()

    def _wait(self, memory: StatementMemory) -> None:
        self.condition.wait_for(lambda: memory is self._order[0] or not self._take_turns())
        memory.turn_end = time.monotonic() + TURN_SECONDS
        self._running.add(memory)
        self._count()

    def _count(self) -> None:
        for each in self._running:
            each.count(alone=len(self._running) == 1)

    def _take_turns(self) -> bool:
        """Return whether several statements have allocated much together."""
        if len(self._order) > 1 and apsw.memory_used() - self._used_before > MAX_SHARED_BYTES:
            self._began = self._began or time.monotonic()
        elif self._began is not None:
            self._began = None
            self.condition.notify_all()
        return self._began is not None


_TURNS = _Turns()
