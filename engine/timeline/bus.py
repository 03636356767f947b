"""Timeline of one process: publish/subscribe for new records, recordings and measurements."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from engine.measurement import MeasurementBatch
from engine.timeline.record import Record
from engine.timeline.recording import Recording

RecordCallback = Callable[[Record], None]
RecordingCallback = Callable[[Recording], None]
MeasurementCallback = Callable[[MeasurementBatch], None]
_T = TypeVar("_T")
_log = logging.getLogger("svc.timeline")
_log.addHandler(logging.NullHandler())


class TimelineBus:
    """Accepts records from any thread; calls followers synchronously on the appending thread.

    A follower that raises is logged and removed, so that its failure cannot slow or break a request.
    """

    def __init__(self) -> None:
        self._followers: list[RecordCallback] = []
        self._listeners: list[RecordingCallback] = []
        self._measurers: list[MeasurementCallback] = []
        self._lock = threading.Lock()

    def append(self, record: Record) -> None:
        """Pass a record to every follower."""
        for follower in list(self._followers):
            try:
                follower(record)
            except Exception:
                self._drop(self._followers, follower)

    def publish_recording(self, recording: Recording) -> None:
        """Pass a recording to every listener, after the record of its request. The bus does not store it."""
        for listener in list(self._listeners):
            try:
                listener(recording)
            except Exception:
                self._drop(self._listeners, listener)

    def on_recording(self, listener: RecordingCallback) -> Callable[[], None]:
        """Call `listener` with each new recording; return a function that removes it."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._remove(self._listeners, listener)

    def publish_measurements(self, batch: MeasurementBatch) -> None:
        """Pass measurements of guests to every listener."""
        for measurer in list(self._measurers):
            try:
                measurer(batch)
            except Exception:
                self._drop(self._measurers, measurer)

    def on_measurements(self, measurer: MeasurementCallback) -> Callable[[], None]:
        """Call `measurer` with new measurements; return a function that removes it."""
        with self._lock:
            self._measurers.append(measurer)
        return lambda: self._remove(self._measurers, measurer)

    def subscribe(self, follower: RecordCallback) -> Callable[[], None]:
        """Call `follower` with each new record; return a function that removes it."""
        with self._lock:
            self._followers.append(follower)
        return lambda: self._remove(self._followers, follower)

    def _drop(self, callbacks: list[_T], callback: _T) -> None:
        """Remove a callback that raised, and log the current exception once."""
        with self._lock:
            registered = callback in callbacks
        self._remove(callbacks, callback)
        if registered:
            _log.exception("a timeline follower failed and was removed: %r", callback)

    def _remove(self, callbacks: list[_T], callback: _T) -> None:
        with self._lock:
            if callback in callbacks:
                callbacks.remove(callback)
