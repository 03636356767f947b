"""Recurring work runs on shared threads: by its owner's wishes, one run at a time, and not after its end."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from engine import recurring
from engine.recurring import Recurring
from tests.support.waiting import until

LATER = 3600.0


class Owner:
    """Work whose runs are counted, and can be held."""

    def __init__(self, delay: float | None = None) -> None:
        self.runs = self.at_once = self.most = 0
        self.delay = delay
        self.free = threading.Event()
        self.free.set()
        self.recurring = Recurring(self.work)

    def work(self) -> float | None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.free.wait()
        self.runs += 1
        self.at_once -= 1
        return self.delay


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    made.free.set()
    made.recurring.close()


def test_work_runs_at_the_earliest_of_its_times(owner: Owner) -> None:
    owner.recurring.wake(LATER)
    owner.recurring.wake(0)
    owner.recurring.wake(LATER)
    until(lambda: owner.runs == 1)


def test_work_runs_again_when_it_says(owner: Owner) -> None:
    owner.delay = 0.001
    owner.recurring.wake(0)
    until(lambda: owner.runs > 3)


def test_wake_during_a_run_is_another_run(owner: Owner) -> None:
    owner.free.clear()
    owner.recurring.wake(0)
    until(lambda: owner.at_once == 1)
    for _ in range(3):
        owner.recurring.wake(0)
    owner.free.set()
    until(lambda: owner.runs == 2)
    assert owner.most == 1


def test_wake_after_a_later_plan_leaves_few_entries(owner: Owner) -> None:
    owner.delay = LATER
    for number in range(50):
        owner.recurring.wake(0)
        until(lambda expected=number + 1: owner.runs == expected)  # type: ignore[misc]
    assert sum(each is owner.recurring for _, _, each in recurring._queue) <= 2


def test_close_waits_for_the_run_and_begins_no_other(owner: Owner) -> None:
    owner.free.clear()
    owner.recurring.wake(0)
    until(lambda: owner.at_once == 1)
    owner.recurring.wake(0)
    closing = threading.Thread(target=owner.recurring.close)
    closing.start()
    until(lambda: owner.recurring._closed)
    assert closing.is_alive()
    owner.free.set()
    closing.join()
    owner.recurring.wake(0)
    assert (owner.runs, owner.recurring._due) == (1, None)


def test_error_of_a_run_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no")

    failing = Recurring(fail)
    for _ in range(2 * recurring.THREADS):
        caplog.clear()
        failing.wake(0)
        until(lambda: "recurring work failed" in caplog.text)
    failing.close()


def test_many_owners_share_few_threads() -> None:
    owners = [Owner(0.001) for _ in range(200)]
    for each in owners:
        each.recurring.wake(0)
    until(lambda: all(each.runs > 2 for each in owners))
    for each in owners:
        each.recurring.close()
    assert all(each.most == 1 for each in owners)
    names = [each.name for each in threading.enumerate()]
    assert names.count("recurring") <= recurring.THREADS


def test_owners_beyond_the_limit_close_their_files_in_the_order_of_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurring, "MAX_HOLDING", 2)
    owners = [Owner(recurring.IDLE_SECONDS) for _ in range(4)]
    for number, each in enumerate(owners):
        each.recurring.wake(0)
        until(lambda each=each: each.runs == 1)  # type: ignore[misc]
        if number == 1:
            owners[0].delay = owners[1].delay = None  # They close their files at the next run.
    until(lambda: [each.runs for each in owners] == [2, 2, 1, 1])
    for each in owners:
        each.recurring.close()


def test_burst_of_owners_opens_few_files_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners that shall close their files go before those that would open theirs."""
    monkeypatch.setattr(recurring, "MAX_HOLDING", 2)
    holding, counts = set[int](), []

    def work(number: int) -> float | None:
        if number in holding:
            holding.remove(number)
            return None
        holding.add(number)
        counts.append(len(holding))
        return recurring.IDLE_SECONDS

    owners = [Recurring(partial(work, number)) for number in range(100)]
    with recurring._lock:
        for each in owners:
            each._plan(0.0)
    until(lambda: len(counts) == len(owners) and len(holding) == 2)
    for each in owners:
        each.close()
    assert max(counts) <= 2 + recurring.THREADS
