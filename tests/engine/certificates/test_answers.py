"""Answers of an authority that Pebble does not give itself: limits with a time, and a wrong certificate."""

import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.certificates import manager as managing
from engine.certificates.authority import MAX_WAIT_SECONDS
from engine.certificates.manager import SERVICE, Entry, owner_of
from engine.certificates.private import self_signed
from engine.http.messages import retry_after
from tests.engine.certificates.test_manager import DOMAIN, SHOP, Site
from tests.engine.deploy.packing import opened
from tests.support.pebble import Answer, Pebble, authority, proxied

NEW_ORDER, CERTIFICATE = "/order-plz", "/certZ/"


@pytest.fixture
def pebble(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pebble]:
    monkeypatch.setattr(managing, "TICK_SECONDS", 0.05)
    with authority(cache, tmp_path / "pebble") as running:
        yield running


class Replies:
    """The answers to give at paths that begin with a text, each once."""

    def __init__(self) -> None:
        self.next: list[tuple[str, Answer]] = []
        self.orders = 0

    def __call__(self, path: str) -> Answer | None:
        self.orders += path == NEW_ORDER
        if self.next and path.startswith(self.next[0][0]):
            return self.next.pop(0)[1]
        return None


def limited(detail: str, wait: str, **members: object) -> Answer:
    problem = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": detail, **members}
    fields = {"content-type": "application/problem+json", "retry-after": wait}
    return 429, fields, json.dumps(problem).encode()


def run(pebble: Pebble, tmp_path: Path, scenario: Callable[[Site, Replies], object]) -> None:
    async def with_site(bucket: FolderBucket) -> None:
        replies = Replies()
        with proxied(pebble, replies) as settings:
            site = Site(pebble, bucket, tmp_path)
            site.settings = settings
            site.start()
            async with site:
                first = site.used[0].default
                await site.until(lambda: site.used[-1].default != first)
                await scenario(site, replies)  # type: ignore[misc]

    opened(tmp_path / "bucket", with_site)


async def deploy(site: Site) -> Entry:
    """Order for a project, and return its entry once that has failed."""
    site.hosts = {"shop": SHOP}
    await site.until(lambda: bool(site.reports))
    return await site.settled(owner_of("shop"))


async def ticks(site: Site, count: int) -> None:
    """Wait until the manager has looked at its entries several times more."""
    done, all_ = 0, site.store.all

    async def counted() -> dict[str, Entry]:
        nonlocal done
        done += 1
        return await all_()

    site.store.all = counted  # type: ignore[method-assign]
    await site.until(lambda: done > count)
    site.store.all = all_  # type: ignore[method-assign]


def test_rate_limit_is_tried_again_at_its_time(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(site: Site, replies: Replies) -> None:
        replies.next = [(NEW_ORDER, limited("too many orders", "7200"))]
        before = replies.orders
        entry = await deploy(site)
        assert 7100 < entry.retry_at - site.clock() <= 7200
        ((_, text),) = site.reports
        assert "too many orders (rateLimited); the next try is at" in text
        site.ahead = 7100  # Later than the first pause without that answer.
        await ticks(site, 3)
        assert replies.orders == before + 1 and not site.issued(SHOP[0])
        site.ahead = 7201
        await site.until(lambda: site.issued(SHOP[0]))
        assert len(site.reports) == 1 and not (await site.settled(owner_of("shop"))).failures

    run(pebble, tmp_path, scenario)


def test_overloaded_authority_is_tried_again_soon_and_less_often_with_time(
    pebble: Pebble, tmp_path: Path
) -> None:
    async def scenario(site: Site, replies: Replies) -> None:
        busy: Answer = (503, {"content-type": "text/html", "retry-after": "90"}, b"<h1>busy</h1>")
        replies.next = [(path, busy) for path in ("/dir", NEW_ORDER, "/dir")]
        entry = await deploy(site)
        assert 80 < entry.retry_at - site.clock() <= 90 and "status 503" in entry.error
        for failures, seconds in ((2, 120), (3, 240)):
            site.ahead = entry.retry_at - site.clock() + site.ahead + 1
            await site.until(lambda failures=failures: len(site.reports) == failures)
            entry = await site.settled(owner_of("shop"))
            assert seconds - 10 < entry.retry_at - site.clock() <= seconds
        site.ahead += 241
        await site.until(lambda: site.issued(SHOP[0]))

    run(pebble, tmp_path, scenario)


def test_limit_of_one_name_is_the_time_of_that_name(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(site: Site, replies: Replies) -> None:
        identifier = {"type": "dns", "value": SHOP[1]}
        part = {
            "type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many", "identifier": identifier,
        }  # fmt: skip
        replies.next = [(NEW_ORDER, limited("several", "86400", subproblems=[part]))]
        entry = await deploy(site)
        await site.until(lambda: site.issued(SHOP[0]))
        assert site.names(SHOP[0]) == {SHOP[0]} and entry.left_out.keys() == {SHOP[1]}
        assert 86300 < entry.left_out_until - site.clock() <= 86400

    run(pebble, tmp_path, scenario)


def test_certificate_for_other_names_is_not_used(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(site: Site, replies: Replies) -> None:
        chain = self_signed("other.example.com").chain.encode()
        replies.next = [(CERTIFICATE, (200, {"content-type": "application/pem-certificate-chain"}, chain))]
        entry = await deploy(site)
        assert f"the certificate of the authority does not name {SHOP[0]}" in entry.error
        assert not site.issued(SHOP[0]) and site.names(SHOP[0]) == {DOMAIN}
        site.ahead = 3601
        await site.until(lambda: site.issued(SHOP[0]))
        assert site.names(SHOP[0]) == set(SHOP)
        assert (await site.settled(SERVICE)).names == [DOMAIN]

    run(pebble, tmp_path, scenario)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("7", 7),
        ("-5", 0),
        ("soon", 0),
        ("9" * 500, MAX_WAIT_SECONDS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_WAIT_SECONDS),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 99999 23:59:59 +9999999", 0),
    ],
)
def test_seconds_of_retry_after_are_bounded(text: str, seconds: float) -> None:
    assert (retry_after(text, time.time(), MAX_WAIT_SECONDS) or 0) == seconds


def test_seconds_of_retry_after_may_be_a_date() -> None:
    now = time.time()
    seconds = retry_after(formatdate(now + 200, usegmt=True), now, MAX_WAIT_SECONDS)
    assert seconds is not None and 100 < seconds <= 200
