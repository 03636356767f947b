"""Attempts to obtain certificates against Pebble: why one failed, and an account that was deactivated."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.certificates import manager as managing
from engine.certificates.authority import Authority
from engine.certificates.state import CertificateStates, ServiceCertificate
from tests.engine.certificates.test_manager import DOMAIN, SHOP, Site
from tests.engine.deploy.packing import opened
from tests.support.pebble import Pebble, authority


@pytest.fixture
def pebble(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pebble]:
    monkeypatch.setattr(managing, "TICK_SECONDS", 0.1)
    with authority(cache, tmp_path / "pebble") as running:
        yield running


def test_failure_is_known_until_the_next_attempt(
    pebble: Pebble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managing, "MAX_NAMES", 2)

    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            expected = site.manager.expected
            site.manager.expected = lambda name: name == DOMAIN  # type: ignore[method-assign]
            site.hosts = {"shop": [*SHOP, "z--shop.apps.example.com"]}
            site.manager.activated("shop")
            assert not site.manager.failure("shop", SHOP[0])
            await site.until(lambda: bool(site.manager.failure("shop", SHOP[0])))
            failure = site.manager.failure("shop", SHOP[0])
            assert SHOP[0] in failure and "; the next try is at 2" in failure
            assert "3 public host names" in site.manager.failure("shop", site.hosts["shop"][2])
            assert not site.manager.failure("shop", "new.example.org")
            site.manager.expected = expected  # type: ignore[method-assign]
            site.manager.activated("shop")
            assert not site.manager.failure("shop", SHOP[0])
            await site.until(lambda: site.issued(SHOP[0]))
            assert not site.manager.failure("shop", SHOP[0])

    opened(tmp_path / "bucket", scenario)


def test_certificate_of_the_service_has_a_state(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        pebble.stop()
        async with Site(pebble, bucket, tmp_path) as site:
            states = CertificateStates(lambda: site.hosts, DOMAIN)
            states.manager = site.manager

            def found() -> ServiceCertificate:
                states.used = site.used[-1]
                state = states.of_service()
                assert state is not None
                return state

            ordered = found()
            assert ordered.certificate.state == "ordered" and not ordered.names and not ordered.renews_at
            await site.until(lambda: found().certificate.state == "failed")
            failed = found()
            assert "does not answer as expected" in failed.certificate.detail
            retries = datetime.fromisoformat(failed.retries_at).timestamp()
            assert 3500 < retries - site.clock() <= 3600 and not failed.names
            await asyncio.to_thread(pebble.start)
            site.ahead = 3601
            await site.until(lambda: found().certificate.state == "valid")
            await site.until(lambda: not found().retries_at)
            valid = found()
            assert valid.names == [DOMAIN] and not valid.certificate.detail
            assert site.clock() < datetime.fromisoformat(valid.renews_at).timestamp()
            assert valid.renews_at < valid.certificate.until

    opened(tmp_path / "bucket", scenario)


def deactivate(pebble: Pebble, key: str) -> None:
    account = Authority(pebble.settings, key)
    account._client.deactivate_registration(account._net.account)


def test_account_that_was_deactivated_is_replaced(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            first = site.used[0].default
            await site.until(lambda: site.used[-1].default != first)
            key = await site.store.account_key()
            await asyncio.to_thread(deactivate, pebble, key)
            site.hosts = {"shop": SHOP}
            site.manager.activated("shop")
            await site.until(lambda: site.issued(SHOP[0]))
            assert await site.store.account_key() != key and not site.reports

    opened(tmp_path / "bucket", scenario)
