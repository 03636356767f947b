"""wasi:io/poll."""

import pytest

from tests.conformance.guest import Guest
from tests.conformance.host import Client, Host

MAX_POLLABLES = 16_384
HOUR = 3600 * 1_000_000_000


def test_poll_empty_list_traps(host: Host) -> None:
    guest = Guest()
    guest.call("poll", [])
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and "empty list" in answer.detail


def test_poll_waits_for_single_pollable(host: Host) -> None:
    guest = Guest()
    pollable = guest.call("subscribe-duration", 5_000_000)
    positions = guest.call("poll", [pollable])
    assert host.run(guest)[positions] == [0]


def test_poll_returns_exactly_ready_positions(host: Host) -> None:
    guest = Guest()
    never = guest.call("subscribe-duration", HOUR)
    ready = [guest.call("subscribe-duration", 0) for _ in range(40)]
    positions = guest.call("poll", [ready[0], never, *ready[1:], never])
    assert host.run(guest)[positions] == [0, *range(2, 41)]


def test_poll_accepts_duplicate_pollables(host: Host) -> None:
    guest = Guest()
    soon = guest.call("subscribe-duration", 1_000_000)
    positions = guest.call("poll", [soon, soon])
    assert host.run(guest)[positions] == [0, 1]


@pytest.mark.parametrize(("count", "trapped"), [(MAX_POLLABLES, False), (MAX_POLLABLES + 1, True)])
def test_poll_list_length_is_limited(host: Host, count: int, trapped: bool) -> None:
    guest = Guest()
    ready = guest.call("subscribe-duration", 0)
    positions = guest.call("poll", [ready] * count)
    answer = host.run(guest)
    assert answer.reached(positions) != trapped
    assert (
        f"more than {MAX_POLLABLES} pollables" in answer.detail
        if trapped
        else len(answer[positions]) == count
    )


def test_ready_pollable_stays_ready(host: Host) -> None:
    guest = Guest()
    pollable = guest.call("subscribe-duration", 0)
    steps = [guest.call("poll", [pollable]) for _ in range(3)]
    guest.call("pollable.block", pollable)
    answer = host.run(guest)
    assert [answer[step] for step in steps] == [[0]] * 3


def test_poll_waits_for_stream_and_clock_together(host: Host) -> None:
    guest = Guest()
    body = guest.call("incoming-request.consume", guest.request)
    stream = guest.call("incoming-body.stream", body)
    data, clock = guest.call("input-stream.subscribe", stream), guest.call("subscribe-duration", HOUR)
    before = guest.call("pollable.ready", data)
    positions = guest.call("poll", [clock, data])
    after = guest.call("pollable.ready", data)
    client = Client("POST", headers=[(b"transfer-encoding", b"chunked")], open=True)
    client.after(before, lambda client: client.feed(b"x"))
    answer = host.run(guest, client)
    assert (answer[before], answer[positions], answer[after]) == (False, [1], True)


def test_pollable_outlives_its_source(host: Host) -> None:
    guest = Guest()
    stdin = guest.call("get-stdin")
    pollable = guest.call("input-stream.subscribe", stdin)
    guest.drop(stdin)
    ready = guest.call("pollable.ready", pollable)
    guest.drop(pollable)
    guest.answer(b"fine")
    answer = host.run(guest)
    assert answer[ready] is True and answer.body == b"fine"


def test_dropped_pollable_traps(host: Host) -> None:
    for name in ("pollable.ready", "pollable.block"):
        guest = Guest()
        pollable = guest.call("subscribe-duration", 0)
        guest.drop(pollable)
        step = guest.call(name, pollable)
        answer = host.run(guest)
        assert not answer.reached(step) and "handle" in answer.detail


def test_double_drop_traps(host: Host) -> None:
    guest = Guest()
    pollable = guest.call("subscribe-duration", 0)
    guest.drop(pollable, pollable)
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and "handle" in answer.detail


def test_handle_of_wrong_type_traps(host: Host) -> None:
    guest = Guest()
    stdin = guest.call("get-stdin")
    step = guest.call("pollable.ready", stdin.place)
    answer = host.run(guest)
    assert not answer.reached(step) and answer.report.outcome == "guest-failed"
