"""wasi:clocks: monotonic-clock, wall-clock, timezone."""

import time

from tests.conformance.guest import Guest
from tests.conformance.host import Host

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
FOREVER = (1 << 64) - 1


def test_monotonic_clock_restarts_per_run_and_never_decreases(host: Host) -> None:
    guest = Guest()
    times = [guest.call("monotonic-clock/now") for _ in range(20)]
    for _ in range(2):
        answer = host.run(guest)
        read = [answer[step] for step in times]
        assert 1 <= read[0] < 60 * SECOND
        assert read == sorted(read)


def test_clocks_report_their_resolution(host: Host) -> None:
    guest = Guest()
    monotonic, wall = guest.call("monotonic-clock/resolution"), guest.call("wall-clock/resolution")
    answer = host.run(guest)
    assert answer[monotonic] == 1 and answer[wall] == (0, 1)


def test_past_instant_is_ready_and_future_instant_is_not(host: Host) -> None:
    guest = Guest()
    past, future = guest.call("subscribe-instant", 0), guest.call("subscribe-instant", HOUR)
    ready = [guest.call("pollable.ready", pollable) for pollable in (past, future)]
    guest.call("pollable.block", past)
    answer = host.run(guest)
    assert [answer[step] for step in ready] == [True, False]


def test_blocking_on_duration_waits(host: Host) -> None:
    guest = Guest()
    before = guest.call("monotonic-clock/now")
    pollable = guest.call("subscribe-duration", 30_000_000)
    guest.call("pollable.block", pollable)
    ready, after = guest.call("pollable.ready", pollable), guest.call("monotonic-clock/now")
    answer = host.run(guest)
    assert answer[ready] and answer[after] - answer[before] >= 30_000_000


def test_blocking_on_instant_waits(host: Host) -> None:
    guest = Guest()
    pollable = guest.call("subscribe-instant", 50_000_000)
    guest.call("pollable.block", pollable)
    after = guest.call("monotonic-clock/now")
    assert host.run(guest)[after] >= 50_000_000


def test_zero_duration_is_ready_and_maximum_duration_never(host: Host) -> None:
    guest = Guest()
    none, longest = guest.call("subscribe-duration", 0), guest.call("subscribe-duration", FOREVER)
    last = guest.call("subscribe-instant", FOREVER)
    ready = [guest.call("pollable.ready", pollable) for pollable in (none, longest, last)]
    soon = guest.call("subscribe-duration", 1_000_000)
    first = guest.call("poll", [longest, last, soon])
    answer = host.run(guest)
    assert [answer[step] for step in ready] == [True, False, False]
    assert answer[first] == [2]


def test_wall_clock_matches_host_time(host: Host) -> None:
    guest = Guest()
    now = guest.call("wall-clock/now")
    before = time.time()
    seconds, nanoseconds = host.run(guest)[now]
    assert int(before) <= seconds <= time.time() and 0 <= nanoseconds < SECOND


def test_timezone_is_utc(host: Host) -> None:
    guest = Guest()
    steps = [
        (guest.call("timezone/display", when), guest.call("timezone/utc-offset", when))
        for when in ((0, 0), (1_750_000_000, 999_999_999), (FOREVER, 0))
    ]
    answer = host.run(guest)
    assert [(answer[shown], answer[offset]) for shown, offset in steps] == [((0, "UTC", False), 0)] * 3
