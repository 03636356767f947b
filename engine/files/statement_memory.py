"""Limit of the memory of statements that collect values, such as `select json_group_array(a) from t`.

SQLite collects the values of these functions in memory, up to 2 GiB for each, and has no limit for it. It
counts the memory of the whole process only. So such statements take turns: what is allocated during a turn
belongs to its statement. After a turn of one file, one of another file is next, so that each project waits
for one turn of each other. Statements beside them are limited by their caches.
"""

import threading
import time
from collections.abc import Callable

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
"""Duration of a turn while others wait."""
STEP_SECONDS = 1.0
"""After this time in one step, as of a search for many words, a statement has no turn any more."""
MAX_STEPS = 500
_FIRST_STEPS = 8
"""Steps of a statement between two calls of `give_way`. They follow from the duration of the last ones."""


class StatementMemory:
    """The memory of the statements of one connection. As a context, it takes the turns of a statement.

    Use it on the thread that runs the statement. Set `give_way` as its progress handler, and call
    `is_over_limit` in the checks. `oversized` is true if the last statement was above its limit. While
    `stopped` is true, statements do not wait, because an interrupt comes.
    """

    def __init__(self, connection: apsw.Connection, limit: int = MAX_COLLECTED_BYTES) -> None:
        self._connection = connection
        self._file = connection.filename
        self._limit = limit
        self._used_before: int | None = None
        self._turn_end = self._called = 0.0
        self.stopped = self.oversized = False

    def __enter__(self) -> "StatementMemory":
        self._collected, self.oversized = 0, False
        self._take_turn(lambda: self.stopped)
        self._set_steps(_FIRST_STEPS)
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.set_progress_handler(None, id=self)
        self._end_turn()
        self.stopped = False

    def give_way(self) -> bool:
        """Give the turn to other statements if it is over. Return False: this does not stop a statement."""
        now = time.monotonic()
        seconds, self._called = now - self._called, now
        if seconds > TURN_SECONDS / 2 and self._steps > 1:
            self._set_steps(max(1, self._steps // 8))
        elif seconds < TURN_SECONDS / 8 and self._steps < MAX_STEPS:
            self._set_steps(self._steps * 2)
        if now > self._turn_end and len(_order) > 1:
            self._end_turn()
            self._take_turn(lambda: self._connection.is_interrupted)
        return False

    def is_over_limit(self) -> bool:
        """Return whether to stop."""
        with _turn:
            if self._used_before is not None:
                used = self._collected + apsw.memory_used() - self._used_before
                self.oversized = self.oversized or used > self._limit
            return self._used_before is not None and self.oversized

    def _set_steps(self, steps: int) -> None:
        self._steps = steps
        self._connection.set_progress_handler(self.give_way, steps, id=self)

    def _take_turn(self, stopped: Callable[[], bool]) -> None:
        """Wait for a turn until `stopped`, and begin it."""
        with _turn:
            _order.append(self)
            while _order[0] is not self and not stopped():
                _turn.wait(TURN_SECONDS)
                first = _order[0]
                if first._used_before is not None and time.monotonic() - first._called > STEP_SECONDS:
                    _order.append(_order.pop(0))
            if _order[0] is self:
                self._used_before = apsw.memory_used()
            self._called = time.monotonic()
            self._turn_end = self._called + TURN_SECONDS

    def _end_turn(self) -> None:
        """End the turn. The next one is the first of another file."""
        with _turn:
            if self._used_before is not None:
                self._collected += apsw.memory_used() - self._used_before
            self._used_before = None
            first = _order[0] is self
            _order.remove(self)
            if first:
                _order.sort(key=lambda each: each._file == self._file)
            _turn.notify_all()


_turn = threading.Condition()
_order: list[StatementMemory] = []
"""The statements that take turns. The first one has its turn, and the others wait."""
