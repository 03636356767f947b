"""wasi:random: random, insecure, insecure-seed."""

import pytest

from tests.conformance.guest import Guest
from tests.conformance.host import Host

BYTES = ["get-random-bytes", "get-insecure-random-bytes"]


@pytest.mark.parametrize("name", BYTES)
def test_random_bytes_have_requested_length(host: Host, name: str) -> None:
    guest = Guest()
    none, some, again, most = (guest.call(name, count) for count in (0, 32, 32, 65536))
    answer = host.run(guest)
    assert (len(answer[none]), len(answer[some]), len(answer[most])) == (0, 32, 65536)
    assert answer[some] != bytes(32) and answer[some] != answer[again]


@pytest.mark.parametrize("count", [65537, 1 << 32, (1 << 64) - 1])
@pytest.mark.parametrize("name", BYTES)
def test_random_bytes_above_limit_trap(host: Host, name: str, count: int) -> None:
    guest = Guest()
    guest.call(name, count)
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and "at most 65536 are allowed" in answer.detail


@pytest.mark.parametrize("name", ["get-random-u64", "get-insecure-random-u64"])
def test_random_numbers_differ(host: Host, name: str) -> None:
    guest = Guest()
    steps = [guest.call(name) for _ in range(4)]
    answer = host.run(guest)
    assert len({answer[step] for step in steps}) == 4


def test_insecure_seed_differs_per_run(host: Host) -> None:
    guest = Guest()
    seed = guest.call("insecure-seed")
    first, second = host.run(guest)[seed], host.run(guest)[seed]
    assert len(first) == 2 and first != second
