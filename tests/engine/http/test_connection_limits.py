import pytest

from engine.http.connection_limits import ConnectionLimiter, client_key


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_client_key_groups_ipv6_network(address: str, whose: str) -> None:
    assert client_key(address) == whose


def test_limiter_counts_each_client_key() -> None:
    peers = ConnectionLimiter(2)
    assert peers.acquire("2001:db8::1") and peers.acquire("2001:db8::2")
    assert not peers.acquire("2001:db8::3")
    assert peers.acquire("203.0.113.7")
    peers.release("2001:db8::1")
    assert peers.acquire("2001:db8::3")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_limiter_exempts_loopback(address: str) -> None:
    peers = ConnectionLimiter(1)
    assert all(peers.acquire(address) for _ in range(10))


def test_limiter_without_limit_accepts_all() -> None:
    peers = ConnectionLimiter(0)
    assert all(peers.acquire("203.0.113.7") for _ in range(10))
