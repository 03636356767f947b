"""Epochs pass while there are runs, short ones while guests are heavy."""

import time
from collections.abc import Callable, Iterator

import pytest

from engine.wasm.epochs import LONG_SECONDS, SHORT_SECONDS, Epochs
from tests.waiting import until


class Watched:
    """Epochs whose thread tells how long it means to sleep, and sleeps a millisecond."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.slept: list[float] = []
        self.passed = 0
        self.runs: set[int] = set()
        self._sleep = sleep
        self.epochs = Epochs(self._pass, self.runs)

    def _pass(self) -> None:
        self.passed += 1

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._sleep(0.001)

    def begin(self) -> None:
        self.runs.add(1)
        self.epochs.begun()

    def until_more_pass(self) -> None:
        before = self.passed
        until(lambda: self.passed > before + 3)

    def until_it_rests(self) -> None:
        before = -1
        while before != self.passed:
            before = self.passed
            self._sleep(0.1)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    made: list[Watched] = []
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: made[0].sleep(seconds) if made else sleep(0))
    made.append(Watched(sleep))
    yield made[0]
    made[0].epochs.close()
    monkeypatch.undo()


def test_none_pass_once_nothing_runs_and_they_do_again_with_the_next_run(watched: Watched) -> None:
    watched.until_it_rests()
    for _ in range(3):
        watched.begin()
        watched.until_more_pass()
        watched.runs.clear()
        watched.until_it_rests()


def test_they_are_short_while_guests_are_heavy(watched: Watched) -> None:
    watched.begin()
    until(lambda: watched.slept[-3:] == [LONG_SECONDS] * 3)
    watched.epochs.heavy()
    until(lambda: watched.slept[-3:] == [SHORT_SECONDS] * 3)
