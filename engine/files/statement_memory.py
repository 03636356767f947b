"""Turns of long statements, and a limit of the memory of those that collect values.

At most one long statement fewer than the machine has processors runs at once, so that requests find one free.
After a turn of one file, one of another file is next, so that each project waits for one turn of each other.

SQLite collects the values of functions such as `json_group_array` in memory, up to 2 GiB for each, and has no
limit for it. It counts the memory of the whole process only. So at most one statement with such a function
has a turn: what is allocated during the turn belongs to it. Statements beside it are limited by their caches.
"""

import os
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
SHORT_SECONDS = 0.002
"""Statements that last this long take no turn, unless they collect values."""
MAX_STEPS, MAX_COLLECTING_STEPS = 100_000, 500
_FIRST_STEPS = 32
"""Steps of a statement between two calls of `give_way`. They follow from the duration of the last ones."""
_RUNNING = max(1, (os.cpu_count() or 1) - 1)
"""Maximum statements that have a turn."""


class StatementMemory:
    """The turns of the statements of one connection, and the memory of those that collect values.

    Use it on the thread that runs the statements, between `start` and `stop`. As a context, it takes the turn
    of a statement that collects. Call `is_over_limit` in the checks. `oversized` is true if the last one was
    above its limit. While `stopped` is true, statements do not wait, because an interrupt comes.
    """

    def __init__(self, connection: apsw.Connection, limit: int = MAX_COLLECTED_BYTES) -> None:
        self._connection = connection
        self._file = connection.filename
        self._limit = limit
        self._used_before: int | None = None
        self._turn_end = self._called = 0.0
        self._queued = self._runs = self._collects = False
        self.stopped = self.oversized = False

    def start(self) -> None:
        """Begin statements, which take turns once they are no longer short."""
        self.stopped = self.oversized = False
        self._called = time.monotonic()
        self._turn_end = self._called + SHORT_SECONDS
        self._set_steps(_FIRST_STEPS)

    def stop(self) -> None:
        """End the statements and their turn."""
        self._connection.set_progress_handler(None, id=self)
        self._end_turn()

    def __enter__(self) -> "StatementMemory":
        self._end_turn()
        self._collected, self._collects, self.oversized = 0, True, False
        self._take_turn(lambda: self.stopped)
        self._set_steps(_FIRST_STEPS)
        return self

    def __exit__(self, *error: object) -> None:
        self._end_turn()
        self._collects = self.stopped = False

    def give_way(self) -> bool:
        """Give the turn to others if it is over. Return False: this does not stop a statement."""
        now = time.monotonic()
        seconds, self._called = now - self._called, now
        most = MAX_COLLECTING_STEPS if self._collects else MAX_STEPS
        if seconds > TURN_SECONDS / 2 and self._steps > 1:
            self._set_steps(max(1, self._steps // 8))
        elif seconds < TURN_SECONDS / 8 and self._steps < most:
            self._set_steps(self._steps * 2)
        if now > self._turn_end and not (self._runs and all(each._runs for each in _order)):
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
            self._queued = True
            while not (self._is_next() or stopped()):
                _turn.wait(TURN_SECONDS)
                for each in _order[:_RUNNING]:
                    if each._runs and time.monotonic() - each._called > STEP_SECONDS:
                        _order.remove(each)
                        _order.append(each)
            self._runs = self._is_next()
            if self._runs and self._collects:
                self._used_before = apsw.memory_used()
            self._called = time.monotonic()
            self._turn_end = self._called + TURN_SECONDS

    def _is_next(self) -> bool:
        earlier = _order[: _order.index(self)]
        return len(earlier) < _RUNNING and not (self._collects and any(each._collects for each in earlier))

    def _end_turn(self) -> None:
        """End the turn, if there is one. The next one is the first of another file."""
        if not self._queued:
            return
        with _turn:
            if self._used_before is not None:
                self._collected += apsw.memory_used() - self._used_before
            self._used_before = None
            _order.remove(self)
            self._queued = False
            if self._runs:
                _order.sort(key=lambda each: not each._runs and each._file == self._file)
            self._runs = False
            _turn.notify_all()


_turn = threading.Condition()
_order: list[StatementMemory] = []
"""The statements that take turns. The first ones have theirs, and the others wait."""
