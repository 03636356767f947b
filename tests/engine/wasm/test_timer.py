"""Timers fire on time, and rearming does not wake the waiting thread."""

import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.wasm.execution.epoch_ticker import SleepTimer, Timer, TimerfdTimer, create_timer
from tests.support.waiting import until

LINUX = sys.platform == "linux"
KINDS = [SleepTimer, *([TimerfdTimer] if LINUX else [])]


class Waiting:
    """A thread that waits for a timer repeatedly and records when it fires."""

    def __init__(self, kind: Callable[[], Timer]) -> None:
        self.alarm = kind()
        self.rang: list[float] = []
        self._over = False
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        while True:
            self.alarm.wait()
            if self._over:
                return
            self.rang.append(time.monotonic())

    def close(self) -> None:
        self._over = True
        self.alarm.set(1e-9)
        self.thread.join()
        self.alarm.close()


@pytest.fixture(params=KINDS)
def waiting(request: pytest.FixtureRequest) -> Iterator[Waiting]:
    waiter = Waiting(request.param)
    yield waiter
    waiter.close()


def test_timer_unset_does_not_fire(waiting: Waiting) -> None:
    time.sleep(0.05)
    assert waiting.rang == []


def test_timer_fires_on_time(waiting: Waiting) -> None:
    for seconds in (0.03, 0.001):
        waiting.rang.clear()
        began = time.monotonic()
        waiting.alarm.set(seconds)
        until(lambda: bool(waiting.rang))
        assert waiting.rang[0] - began >= seconds


def test_timer_can_be_rearmed(waiting: Waiting) -> None:
    waiting.alarm.set(1)
    put_off = time.monotonic()
    waiting.alarm.set(1.5)
    until(lambda: bool(waiting.rang))
    assert waiting.rang[0] >= put_off + 1.5


@pytest.mark.skipif(not LINUX, reason="elsewhere the thread looks whether its alarm was put off")
def test_rearm_does_not_wake_waiting_thread() -> None:
    waiting = Waiting(create_timer)
    status = Path(f"/proc/self/task/{waiting.thread.native_id}/status")

    def woken() -> int:
        lines = dict(line.split(":\t") for line in status.read_text().splitlines() if ":\t" in line)
        return int(lines["voluntary_ctxt_switches"])

    def stays_asleep() -> bool:
        """Return whether 50 rearms woke the thread never: before it waits, it may wait for other locks."""
        before = woken()
        for _ in range(50):
            waiting.alarm.set(100)
            time.sleep(0.001)
        return woken() == before

    try:
        until(stays_asleep)
        assert waiting.rang == []
    finally:
        waiting.close()


@pytest.mark.skipif(not LINUX, reason="timers that are files are Linux's")
def test_timerfd_without_free_descriptor_raises() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            TimerfdTimer()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
