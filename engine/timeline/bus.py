"""Timeline of one process: publish/subscribe for new records, recordings and measurements."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.measurement import MeasurementBatch
from engine.timeline.record import Record
from engine.timeline.recording import Recording

_Item = TypeVar("_Item")
_log = logging.getLogger("svc.timeline")
_log.addHandler(logging.NullHandler())


class Topic(Generic[_Item]):
    """Accepts items from any thread; calls followers synchronously on the appending thread.

    A follower that raises is logged and removed, so that its failure cannot slow or break a request.
    """

    def __init__(self) -> None:
        self._followers: list[Callable[[_Item], None]] = []
        self._lock = threading.Lock()

    def append(self, item: _Item) -> None:
        for follower in list(self._followers):
            try:
                follower(item)
            except Exception:
                if self._remove(follower):
                    _log.exception("a timeline follower failed and was removed: %r", follower)

    def subscribe(self, follower: Callable[[_Item], None]) -> Callable[[], object]:
        """Call `follower` with each new item; return a function that removes it."""
        with self._lock:
            self._followers.append(follower)
        return lambda: self._remove(follower)

    def _remove(self, follower: Callable[[_Item], None]) -> bool:
        with self._lock:
            if found := follower in self._followers:
                self._followers.remove(follower)
        return found


class TimelineBus(Topic[Record]):
    """The records of a project. `recordings` follow the records of their requests; the bus stores nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.recordings = Topic[Recording]()
        self.measurements = Topic[MeasurementBatch]()
