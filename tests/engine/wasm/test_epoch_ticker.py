"""Epochs end during long computations on the loop, and while workers compute."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.wasm.execution.epoch_ticker import EPOCH_SECONDS, REARM_NS, EpochTicker, create_timer
from tests.support.waiting import until

PROMPT = EPOCH_SECONDS - 2 * REARM_NS / 1e9
"""Calls of `touch` at this interval always postpone the end of the epoch."""


class Counted:
    """An EpochTicker with a count of ended epochs."""

    def __init__(self) -> None:
        self.ended = 0
        self.epochs = EpochTicker(self._end)

    def _end(self) -> None:
        self.ended += 1

    def computing(self) -> None:
        self.epochs.touch()


@pytest.fixture
def counted() -> Iterator[Counted]:
    counter = Counted()
    yield counter
    counter.epochs.close()


def test_no_epoch_ends_without_guest_code(counted: Counted) -> None:
    time.sleep(5 * EPOCH_SECONDS)
    assert counted.ended == 0


def test_epoch_ends_during_long_computation(counted: Counted) -> None:
    for number in range(1, 4):
        counted.computing()
        until(lambda number=number: counted.ended == number)
        time.sleep(5 * EPOCH_SECONDS)
        assert counted.ended == number


def short_whiles(counted: Counted) -> int | None:
    """Return how many epochs ended; `None` if the machine stretched one of the intervals."""
    counted.computing()
    before, last, prompt = counted.ended, time.monotonic(), True
    for _ in range(200):
        time.sleep(0.001)
        counted.computing()
        now = time.monotonic()
        prompt, last = prompt and now - last < PROMPT, now
    return counted.ended - before if prompt else None


def test_no_epoch_ends_during_short_computations(counted: Counted) -> None:
    result: list[int | None] = []
    until(lambda: result.append(short_whiles(counted)) or result[-1] is not None)
    assert result[-1] == 0


def test_epochs_end_while_worker_is_active(counted: Counted) -> None:
    with counted.epochs.worker_active():
        until(lambda: counted.ended > 3)
        with counted.epochs.worker_active():
            counted.computing()
        before = counted.ended
        until(lambda: counted.ended > before + 3)

    def have_stopped() -> bool:
        """Return whether no epoch ended for a while: the thread may have been about to end another."""
        before = counted.ended
        time.sleep(5 * EPOCH_SECONDS)
        return counted.ended == before

    until(have_stopped)


def test_epochs_end_although_the_loop_is_suspended_when_a_worker_starts(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may suspend a thread between any two statements, until the timer has fired."""
    timer = create_timer()
    timer.close()
    set_timer = type(timer).set

    def set_and_suspend(timer: Any, seconds: float) -> None:
        set_timer(timer, seconds)
        if threading.current_thread() is threading.main_thread():
            time.sleep(3 * EPOCH_SECONDS)

    monkeypatch.setattr(type(timer), "set", set_and_suspend)
    with counted.epochs.worker_active():
        before = counted.ended
        until(lambda: counted.ended > before + 3)


def test_touch_does_not_delay_epochs_of_workers(counted: Counted) -> None:
    with counted.epochs.worker_active():
        end = time.monotonic() + 60
        while counted.ended < 3:
            assert time.monotonic() < end
            counted.computing()
            time.sleep(0.001)
