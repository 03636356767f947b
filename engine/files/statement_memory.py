"""Limit of the memory of statements that collect values, such as `select json_group_array(a) from t`.

SQLite collects the values of these functions in memory, up to 2 GiB for each, and has no limit for it. It
counts the memory of the whole process only. So such statements take turns: what is allocated during a turn
belongs to its statement. Other statements run beside them; what they allocate is limited by their caches.
"""

import threading
import time
from collections import deque

import apsw

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
TURN_SECONDS = 0.02
CHECK_SECONDS = 0.02
"""Duration of a turn while others wait, and interval of the checks of its memory: one step may take long."""


class StatementMemory:
    """The memory of the statements of one connection. As a context, it is the turn of a statement.

    Use it on the thread that runs the statement, and call `give_way` in the progress handler. `oversized` is
    true if the last statement was interrupted for its memory.
    """

    def __init__(self, connection: apsw.Connection, limit: int = MAX_COLLECTED_BYTES) -> None:
        self._connection = connection
        self._limit = limit
        self._collected = 0
        self._used_before: int | None = None
        self._turn_end = 0.0
        self.oversized = False

    def __enter__(self) -> "StatementMemory":
        self._collected, self.oversized = 0, False
        _TURNS.take(self)
        return self

    def __exit__(self, *error: object) -> None:
        _TURNS.give(self)

    def give_way(self) -> bool:
        """Give the turn to other statements if it is over. Return False: this does not stop a statement."""
        if self._used_before is not None and time.monotonic() > self._turn_end and _TURNS.others_wait:
            _TURNS.give(self)
            _TURNS.take(self)
        return False

    def begin_turn(self) -> None:
        """Begin to count."""
        self._turn_end = time.monotonic() + TURN_SECONDS
        self._used_before = apsw.memory_used()

    def end_turn(self) -> None:
        """Add what was allocated during the turn."""
        assert self._used_before is not None
        self._collected += apsw.memory_used() - self._used_before
        self._used_before = None

    def check(self) -> None:
        """Interrupt the statement if it is above the limit."""
        if self._used_before is None:
            return
        if self._collected + apsw.memory_used() - self._used_before > self._limit:
            self.oversized = True
            self._connection.interrupt()


class _Turns:
    """The order of the statements of the process; the first one runs. A thread checks its memory."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._order: deque[StatementMemory] = deque()
        self._checker: threading.Thread | None = None

    @property
    def others_wait(self) -> bool:
        return len(self._order) > 1

    def take(self, memory: StatementMemory) -> None:
        """Wait for a turn, and begin it."""
        with self._condition:
            if self._checker is None:
                self._checker = threading.Thread(target=self._check, name="statement-memory", daemon=True)
                self._checker.start()
            self._order.append(memory)
            self._condition.wait_for(lambda: self._order[0] is memory)
            memory.begin_turn()
            self._condition.notify_all()

    def give(self, memory: StatementMemory) -> None:
        """End a turn."""
        with self._condition:
            memory.end_turn()
            self._order.popleft()
            self._condition.notify_all()

    def _check(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._order)
                self._order[0].check()
            time.sleep(CHECK_SECONDS)


_TURNS = _Turns()
