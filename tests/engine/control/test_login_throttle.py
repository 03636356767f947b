"""The limit on login attempts, by user name and by client address."""

from contextlib import suppress

import pytest

from engine.control.auth.login_throttle import (
    FREE_FAILURES_PER_ADDRESS,
    FREE_FAILURES_PER_USER,
    MAX_TRACKED,
    MAX_WAIT_SECONDS,
    RESET_AFTER_SECONDS,
    LoginThrottle,
)
from engine.control.errors import TooManyAttempts
from tests.engine.control.service import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempts(clock: Clock) -> LoginThrottle:
    return LoginThrottle(clock.seconds)


def fail(attempts: LoginThrottle, address: str, user: str) -> None:
    with suppress(ValueError), attempts.attempt(address, user):
        raise ValueError


def refused(attempts: LoginThrottle, address: str, user: str) -> int:
    with pytest.raises(TooManyAttempts) as exc_info:
        fail(attempts, address, user)
    return exc_info.value.retry_after


def test_wait_doubles_up_to_one_minute(clock: Clock, attempts: LoginThrottle) -> None:
    for _ in range(FREE_FAILURES_PER_USER):
        fail(attempts, "192.0.2.1", "ann")
    waits = []
    for number in range(9):
        waits.append(refused(attempts, f"192.0.3.{number}", "ann"))
        clock.advance(waits[-1] + 0.01)
        fail(attempts, f"192.0.3.{number}", "ann")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60] and max(waits) == MAX_WAIT_SECONDS


def test_attempt_during_wait_does_not_extend_it(clock: Clock, attempts: LoginThrottle) -> None:
    for _ in range(FREE_FAILURES_PER_USER):
        fail(attempts, "192.0.2.1", "ann")
    assert {refused(attempts, "192.0.2.1", "ann") for _ in range(50)} == {1}
    clock.advance(1.01)
    fail(attempts, "192.0.2.1", "ann")


def test_success_resets_user_but_not_other_failures_of_address(attempts: LoginThrottle) -> None:
    for number in range(FREE_FAILURES_PER_ADDRESS - 1):
        fail(attempts, "192.0.2.1", f"user{number}")
    with attempts.attempt("192.0.2.1", "ann"):
        pass
    fail(attempts, "192.0.2.1", "ann")
    assert refused(attempts, "192.0.2.1", "bob") == 1
    fail(attempts, "192.0.2.2", "bob")


def test_failures_expire(clock: Clock, attempts: LoginThrottle) -> None:
    for _ in range(FREE_FAILURES_PER_USER):
        fail(attempts, "192.0.2.1", "ann")
    clock.advance(RESET_AFTER_SECONDS + 1)
    for _ in range(FREE_FAILURES_PER_USER):
        fail(attempts, "192.0.2.1", "ann")
    refused(attempts, "192.0.2.1", "ann")


def test_tracked_names_are_bounded(attempts: LoginThrottle) -> None:
    for number in range(MAX_TRACKED + 100):
        fail(attempts, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"user{number}")
    assert len(attempts) == MAX_TRACKED
