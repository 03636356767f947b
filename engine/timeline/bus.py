"""The timeline of this process: a bounded memory of records, and those who follow it.

Owns order and fan-out. Nothing here may slow or break the engine: a follower that raises is dropped.
"""

import threading
from collections import deque
from collections.abc import Callable

from engine.timeline.record import Record
from engine.timeline.recording import Recording

Follower = Callable[[Record], None]
Listener = Callable[[Recording], None]
KEPT = 5000


class Timeline:
    """Append from any thread; followers are called at once, on the appender's thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[Record] = deque(maxlen=kept)
        self._followers: list[Follower] = []
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    def append(self, record: Record) -> None:
        """Add a record and hand it to every follower."""
        with self._lock:
            self._records.append(record)
            followers = list(self._followers)
        for follower in followers:
            try:
                follower(record)
            except Exception:
                self._forget(follower)

    def hand_on(self, recording: Recording) -> None:
        """Hand a recording, after the record of its request, to every listener; none is kept here."""
        for listener in list(self._listeners):
            try:
                listener(recording)
            except Exception:
                self._ignore(listener)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called with each recording from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._ignore(listener)

    def _ignore(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def tail(self, count: int) -> list[Record]:
        """Return the last `count` records, oldest first."""
        with self._lock:
            return list(self._records)[-count:] if count > 0 else []

    def subscribe(self, follower: Follower) -> Callable[[], None]:
        """Have `follower` called with each record from now on; the returned function ends that."""
        with self._lock:
            self._followers.append(follower)
        return lambda: self._forget(follower)

    def _forget(self, follower: Follower) -> None:
        with self._lock:
            if follower in self._followers:
                self._followers.remove(follower)
