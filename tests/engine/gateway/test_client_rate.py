"""Rate limits of clients."""

import tracemalloc

import pytest

from engine.gateway.routes import MAX_ADDRESSES, ClientRate
from engine.manifest.model import Mount, Resource
from tests.engine.gateway.serving import Site, echo, with_site

FRONT = Resource("front", "js", workdir=None, public=True, mounts=(Mount("/api/*", "api"),))  # type: ignore[arg-type]


SECOND = 10**9


class Clock:
    def __init__(self) -> None:
        self.now = 10**15

    def __call__(self) -> int:
        return self.now


def test_bucket_holds_the_rate_and_fills_again_token_by_token() -> None:
    clock = Clock()
    rate = ClientRate("20/1m", clock)
    assert [rate.take("192.0.2.1") for _ in range(20)] == [0] * 20
    assert rate.take("192.0.2.1") == 3 * SECOND
    clock.now += 2 * SECOND
    assert rate.take("192.0.2.1") == SECOND
    assert rate.take("192.0.2.2") == 0
    clock.now += 101 * SECOND // 100
    assert rate.take("192.0.2.1") == 0
    assert rate.take("192.0.2.1") == 2.99 * SECOND
    clock.now += 3600 * SECOND
    assert [rate.take("192.0.2.1") > 0 for _ in range(21)] == [False] * 20 + [True]


@pytest.mark.parametrize(("rate", "requests"), [("1/1d", 1), ("3/1s", 3), ("1000/7m", 1000), ("7/24h", 7)])
def test_first_requests_at_once_are_as_many_as_the_rate_says(rate: str, requests: int) -> None:
    limit = ClientRate(rate, Clock())
    assert [limit.take("::1") for _ in range(requests)] == [0] * requests
    assert limit.take("::1") > 0


def test_ipv6_network_counts_as_one_client_and_a_mapped_address_as_its_ipv4_address() -> None:
    limit = ClientRate("1/1h", Clock())
    assert limit.take("2001:db8::1") == 0 < limit.take("2001:db8::ffff:1")
    assert limit.take("2001:db8:0:1::1") == 0
    assert limit.take("::ffff:192.0.2.1") == 0 < limit.take("192.0.2.1")


def test_memory_is_bounded_under_many_addresses() -> None:
    limit = ClientRate("1/1h", Clock())
    tracemalloc.start()
    try:
        for number in range(3 * MAX_ADDRESSES):
            limit.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
    assert limit.take("10.0.117.47") > 0  # the last one
    assert limit.take("10.0.0.0") == 0  # forgotten


def test_request_counts_for_the_resource_that_answers_it_and_says_when_to_retry() -> None:
    limited = Resource("api", "js", workdir=None, rate="2/1h")  # type: ignore[arg-type]

    async def test(site: Site) -> None:
        answers = [await site.ask(f"/api/{number}") for number in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[2].json()["code"] == "rate-limited"
        assert 1790 <= int(answers[2].headers["retry-after"]) <= 1800
        assert (await site.ask("/")).status_code == 200
        refused = [(span.resource, span.status, span.code) for span in site.spans if span.status == 429]
        assert refused == [("api", 429, "rate-limited"), ("front", 429, "rate-limited")]

    with_site([FRONT, limited], {"front": echo(), "api": echo()}, test)
