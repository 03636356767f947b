"""Certificates by ACME, against Pebble: orders, renewal, failures and restarts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from engine.bucket.folder import FolderBucket
from engine.cancellation import cancel
from engine.certificates import manager as managing
from engine.certificates.dns_provider import RFC2136, DnsProvider
from engine.certificates.manager import (
    MAX_ORDERS,
    SERVICE,
    CertificateManager,
    CertificateStore,
    Entry,
    challenges_and_redirects,
    owner_of,
)
from engine.certificates.private import new_key
from engine.errors import SvcError
from engine.http.server import serve
from engine.http.sockets import bind
from engine.http.tls import CertificateSet, IssuedCertificate
from engine.service.secrets import SecretsKey
from tests.engine.deploy.packing import opened
from tests.support.knot import Knot, name_server
from tests.support.pebble import BLOCKED, Pebble, authority

DOMAIN = "apps.example.com"
SHOP = ["shop.apps.example.com", "web--shop.apps.example.com"]


@pytest.fixture
def pebble(cache: Path, tmp_path: Path) -> Iterator[Pebble]:
    with authority(cache, tmp_path / "pebble") as running:
        yield running


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managing, "TICK_SECONDS", 0.1)


class Site:
    """A manager with its plain listener, over a bucket."""

    def __init__(
        self, pebble: Pebble, bucket: FolderBucket, key: Path, dns: DnsProvider | None = None
    ) -> None:
        self.pebble, self.settings, self.dns, self.node = pebble, pebble.settings, dns, ""
        self.hosts: dict[str, list[str]] = {}
        self.reports: list[tuple[str, str]] = []
        self.alerts: dict[str, str] = {}
        self.used: list[CertificateSet] = []
        self.ahead = 0.0
        self.store = CertificateStore(bucket.kv, SecretsKey.open(key))
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self.start()

    def start(self) -> None:
        """Begin as a new process would."""
        self.manager = CertificateManager(
            replace(self.settings, dns=self.dns),
            self.store,
            domain=DOMAIN,
            hosts=lambda: self.hosts,
            use=self.used.append,
            report=lambda project, text: self.reports.append((project, text)),
            alert=self.alerts.__setitem__,
            node=self.node,
            clock=self.clock,
        )

    def clock(self) -> float:
        return time.time() + self.ahead

    async def __aenter__(self) -> "Site":
        async def find(token: str, name: str) -> str | None:
            return await self.manager.challenge(token, name)

        handler = challenges_and_redirects(find, DOMAIN, "https://{}".format)
        sockets = bind("127.0.0.1", self.pebble.http_port)
        self._tasks.append(asyncio.create_task(serve(handler, sockets, stop=self._stop, grace=0)))
        await self.run()
        return self

    async def run(self) -> None:
        await self.manager.start()
        self.running = asyncio.create_task(self.manager.run())

    async def kill(self) -> None:
        await cancel([self.running])

    async def __aexit__(self, *error: object) -> None:
        await self.kill()
        self._stop.set()
        await asyncio.gather(*self._tasks)

    def names(self, host: str) -> set[str]:
        """Return the names of the certificate that a host gets, empty for one that is not issued."""
        certificate = self.used[-1].named.get(host, self.used[-1].default)
        return names_of(certificate) if isinstance(certificate, IssuedCertificate) else set()

    async def until(self, condition: Callable[[], bool | Awaitable[bool]], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while True:
                met = condition()
                if met if isinstance(met, bool) else await met:
                    return
                await asyncio.sleep(0.02)

    async def settled(self, owner: str) -> Entry:
        """Return an entry once the attempt that changes it has ended."""

        async def ended() -> bool:
            return not (await self.store.all())[owner].until

        await self.until(ended)
        return (await self.store.all())[owner]

    def serial(self, host: str) -> int:
        certificate = self.used[-1].named.get(host, self.used[-1].default)
        assert isinstance(certificate, IssuedCertificate)
        return x509.load_pem_x509_certificate(certificate.chain.encode()).serial_number

    def issued(self, host: str) -> bool:
        return bool(self.used) and host in self.used[-1].named


def names_of(certificate: IssuedCertificate) -> set[str]:
    leaf = x509.load_pem_x509_certificate(certificate.chain.encode())
    return set(
        leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        )
    )


def test_first_orders_give_each_project_one_certificate(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            first = site.used[0].default
            assert isinstance(first, IssuedCertificate) and names_of(first) == {DOMAIN}
            await site.until(lambda: site.used[-1].default != first)
            site.hosts = {
                f"p{number}": [f"p{number}.{DOMAIN}", f"a--p{number}.{DOMAIN}"] for number in range(30)
            }
            for project in site.hosts:
                site.manager.activated(project)
            await site.until(lambda: len(site.used[-1].named) == 60)
            for names in site.hosts.values():
                assert all(site.names(name) == set(names) for name in names)
            assert not site.reports
            assert not await bucket.kv.list("acme/challenges/")
            entries = await site.store.all()
            assert set(entries) == {SERVICE, *map(owner_of, site.hosts)}
            assert not any(b"PRIVATE" in cell.value for cell in await bucket.kv.list(""))

    opened(tmp_path / "bucket", scenario)


def test_certificate_is_renewed_at_two_thirds_of_its_lifetime(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            first = site.used[0].default
            await site.until(lambda: site.used[-1].default != first)
            serial = site.serial(DOMAIN)
            entry = (await site.store.all())[SERVICE]
            assert entry.renew_at > site.clock() + 30 * 86400
            site.ahead = entry.renew_at - site.clock() + 1
            await site.until(lambda: site.serial(DOMAIN) != serial)
            assert not site.reports

    opened(tmp_path / "bucket", scenario)


def test_revoked_certificate_is_replaced_and_reported(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": SHOP}
            await site.until(lambda: site.issued(SHOP[0]))
            serial, before = site.serial(SHOP[0]), site.used[-1].named[SHOP[0]]
            await asyncio.to_thread(pebble.revoke, before.chain, before.key)
            site.ahead = (await site.store.all())[owner_of("shop")].check_at - site.clock() + 1
            await site.until(lambda: site.serial(SHOP[0]) != serial)
            assert site.used[-1].named[SHOP[0]].key != before.key
            ((project, text),) = site.reports
            assert project == "shop" and "as if it was revoked" in text and not site.alerts["shop"]
            assert len((await site.store.all())[owner_of("shop")].ordered) == 2

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("saves", [1, 2, 3, 4])
@pytest.mark.parametrize("forgets", [False, True])
def test_order_that_a_restart_interrupts_is_continued(
    pebble: Pebble, tmp_path: Path, saves: int, forgets: bool
) -> None:
    """The process ends before it stores the count of orders, the order, the tokens or the certificate.

    An authority that has forgotten the order gets another one.
    """

    async def scenario(bucket: FolderBucket) -> None:
        site = Site(pebble, bucket, tmp_path)
        site.hosts = {"shop": SHOP}
        save, reached, count = site.store.save, asyncio.Event(), 0

        async def stop_at(owner: str, entry: Entry) -> None:
            nonlocal count
            count += owner != SERVICE
            if count > saves and owner != SERVICE:
                reached.set()
                await asyncio.Event().wait()
            await save(owner, entry)

        site.store.save = stop_at  # type: ignore[method-assign]
        async with site:
            await asyncio.wait_for(reached.wait(), 60)
            await site.kill()
            if forgets:
                pebble.stop()
                await asyncio.to_thread(pebble.start)
            site.store.save = save  # type: ignore[method-assign]
            before = (await site.store.all())[owner_of("shop")]
            site.start()
            await site.run()
            await site.until(lambda: site.issued(SHOP[0]))
            after = (await site.store.all())[owner_of("shop")]
            assert len(after.ordered) == len(before.ordered) + (saves <= 2 or forgets)
            assert (before.order is None) == (saves <= 2)
            assert site.names(SHOP[1]) == set(SHOP)
            assert not site.reports

    opened(tmp_path / "bucket", scenario)


def test_orders_that_cannot_be_stored_count(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        site = Site(pebble, bucket, tmp_path)
        site.hosts, save = {"shop": SHOP}, site.store.save

        async def fail(owner: str, entry: Entry) -> None:
            if owner != SERVICE and entry.order is not None:
                raise SvcError("the disk is full")
            await save(owner, entry)

        site.store.save = fail  # type: ignore[method-assign]
        async with site:
            await site.until(lambda: any("limit" in text for _, text in site.reports))
            entry = await site.settled(owner_of("shop"))
            assert len(entry.ordered) == MAX_ORDERS and not site.issued(SHOP[0])

    opened(tmp_path / "bucket", scenario)


STEPS = ("Authority", "order", "status", "challenges", "answer", "finalize", "certificate", "renewal")


def test_kill_after_any_step_leaves_an_order_that_is_completed(
    pebble: Pebble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_thread, killed_after, reached = managing.in_thread, "", asyncio.Event()

    async def hang_after(work: Callable[..., object], *arguments: object) -> object:
        result = await in_thread(work, *arguments)
        if work.__name__ == killed_after:
            reached.set()
            await asyncio.Event().wait()
        return result

    async def scenario(bucket: FolderBucket) -> None:
        nonlocal killed_after
        async with Site(pebble, bucket, tmp_path) as site:
            first = site.used[0].default
            await site.until(lambda: site.used[-1].default != first)
            await site.settled(SERVICE)
            monkeypatch.setattr(managing, "in_thread", hang_after)
            for killed_after in STEPS:
                project = killed_after.lower()
                name = f"{project}.{DOMAIN}"
                site.hosts = {project: [name]}
                reached.clear()
                site.manager.activated(project)
                await site.until(reached.is_set)
                await site.kill()
                killed_after = ""
                site.start()
                await site.run()
                await site.until(lambda name=name: site.issued(name))
                entry = await site.settled(owner_of(project))
                orders = 2 if project in ("order", "renewal", "certificate") else 1
                assert len(entry.ordered) <= orders and entry.order is None
            assert not site.reports and not await bucket.kv.list("acme/challenges/")

    opened(tmp_path / "bucket", scenario)


def test_authority_that_is_down_is_tried_again(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        pebble.stop()
        async with Site(pebble, bucket, tmp_path) as site:
            await site.until(lambda: bool(site.reports))
            assert site.reports[0][0] == "" and DOMAIN in site.reports[0][1]
            for failures, hours in ((2, 2), (3, 4)):
                site.ahead += 24 * 3600
                await site.until(lambda failures=failures: len(site.reports) == failures)
                entry = await site.settled(SERVICE)
                assert entry.failures == failures
                assert hours * 3600 - 60 < entry.retry_at - site.clock() <= hours * 3600
            await asyncio.to_thread(pebble.start)
            first = site.used[-1].default
            site.ahead += 24 * 3600
            await site.until(lambda: site.used[-1].default != first)
            assert (await site.store.all())[SERVICE].failures == 0

    opened(tmp_path / "bucket", scenario)


def test_failed_challenge_is_reported_with_its_name_and_orders_are_limited(
    pebble: Pebble, tmp_path: Path
) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.manager.expected = lambda name: name == DOMAIN  # type: ignore[method-assign]
            site.hosts = {"shop": SHOP}
            for count in range(1, MAX_ORDERS + 2):
                site.manager.activated("shop")
                await site.until(lambda count=count: len(site.reports) == count)
            assert all(project == "shop" for project, _ in site.reports)
            assert SHOP[0] in site.reports[0][1]
            assert "limit" in site.reports[-1][1] and "limit" not in site.reports[-2][1]
            entry = (await site.store.all())[owner_of("shop")]
            assert len(entry.ordered) == MAX_ORDERS and entry.failures == 1
            assert not site.issued(SHOP[0])
            await site.until(lambda: "limit" in site.alerts["shop"])
            site.hosts = {}
            await site.until(lambda: not site.alerts["shop"])

    opened(tmp_path / "bucket", scenario)


def test_dead_names_are_left_out_and_tried_again(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            dead = {"dead.example.net", "gone.example.net"}

            async def shop() -> Entry:
                return (await site.store.all()).get(owner_of("shop"), Entry())

            site.manager.expected = lambda name: name not in dead  # type: ignore[method-assign]
            site.hosts = {"shop": [*SHOP, *sorted(dead)]}
            site.manager.activated("shop")
            await site.until(lambda: site.issued(SHOP[0]))
            assert site.names(SHOP[1]) == set(SHOP) and not dead & site.used[-1].named.keys()
            entry = await shop()  # It is used once it is stored.
            assert entry.left_out.keys() == dead and len(entry.ordered) == 2
            assert 3500 < entry.left_out_until - site.clock() <= 3600
            ((project, text),) = site.reports
            assert project == "shop" and "without 2 of its names" in text
            await site.until(lambda: "without 2 of its names" in site.alerts["shop"])
            assert all(name in text and name in site.alerts["shop"] for name in dead)
            await site.until(lambda: bool(site.manager.failure("shop", "dead.example.net")))
            failure = site.manager.failure("shop", "dead.example.net")
            assert "404" in failure and "the next try is at" in failure
            assert not site.manager.failure("shop", SHOP[0])

            # An hour later they are tried again, without another order of the names that work.
            serial, site.ahead = site.serial(SHOP[0]), 3601
            await site.until(lambda: len(site.reports) == 2)
            entry = await site.settled(owner_of("shop"))
            assert site.serial(SHOP[0]) == serial
            assert 7100 < entry.left_out_until - site.clock() <= 7200 and len(entry.ordered) == 3

            # A renewal before their next try is without them.
            entry.renew_at = site.clock()
            await site.store.save(owner_of("shop"), entry)
            await site.until(lambda: site.serial(SHOP[0]) != serial)
            assert len(site.reports) == 2 and (await shop()).left_out.keys() == dead

            # One is removed from the project, the other works at its next try.
            site.hosts = {"shop": [*SHOP, "dead.example.net"]}
            await site.until(lambda: "without 1 of its names" in site.alerts["shop"])
            dead.clear()
            site.ahead += 7201
            await site.until(lambda: site.issued("dead.example.net"))
            await site.until(lambda: not site.alerts["shop"])
            entry = await site.settled(owner_of("shop"))
            assert not entry.left_out and not entry.left_out_failures and len(site.reports) == 2
            assert site.names(SHOP[0]) == {*SHOP, "dead.example.net"}

    opened(tmp_path / "bucket", scenario)


def test_names_that_the_authority_forbids_are_left_out(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            forbidden = {f"a.{BLOCKED}", f"b.{BLOCKED}"}
            site.hosts = {"shop": [*sorted(forbidden), *SHOP]}
            await site.until(lambda: site.issued(SHOP[0]))
            entry = await site.settled(owner_of("shop"))
            assert entry.left_out.keys() == forbidden and len(entry.ordered) == 1
            assert entry.left_out_failures == 1 and site.names(SHOP[0]) == set(SHOP)
            ((_, text),) = site.reports
            assert f"b.{BLOCKED} is a forbidden domain" in text
            # A try before its time does not make the next pause longer.
            site.manager.activated("shop")
            await site.until(lambda: len(site.reports) == 2)
            entry = await site.settled(owner_of("shop"))
            assert entry.left_out_failures == 1 and entry.left_out_until <= site.clock() + 3600

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("days", [-365, 365])
def test_clock_a_year_off_is_named_and_the_certificate_remains(
    pebble: Pebble, tmp_path: Path, days: int
) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            first = site.used[0].default
            await site.until(lambda: site.used[-1].default != first)
            serial, site.ahead = site.serial(DOMAIN), days * 86400
            site.hosts = {"shop": SHOP}
            await site.until(lambda: bool(site.alerts.get("shop")))
            assert "correct the clock" in site.alerts["shop"] and not site.issued(SHOP[0])
            assert site.serial(DOMAIN) == serial
            site.ahead = 0
            await site.until(lambda: site.issued(SHOP[0]))
            await site.until(lambda: not site.alerts["shop"])

    opened(tmp_path / "bucket", scenario)


def test_lost_secrets_key_leads_to_a_new_account_and_new_certificates(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": SHOP}
            await site.until(lambda: site.issued(SHOP[0]))
            await site.settled(owner_of("shop"))
            serial = site.serial(SHOP[0])
            await site.kill()
            site.store = CertificateStore(bucket.kv, SecretsKey.create())
            site.start()
            await site.manager.start()
            assert not site.issued(SHOP[0])
            await site.run()
            await site.until(lambda: site.issued(SHOP[0]))
            assert site.serial(SHOP[0]) != serial and not site.reports

    opened(tmp_path / "bucket", scenario)


def test_certificate_that_expired_while_the_service_was_down_is_replaced(
    pebble: Pebble, tmp_path: Path
) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        site = Site(pebble, bucket, tmp_path)
        key, name = new_key(), x509.Name([])
        private, now = load_pem_private_key(key.encode(), None), datetime.now(UTC)
        assert isinstance(private, EllipticCurvePrivateKey)
        expired = (
            x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=100))
            .not_valid_after(now - timedelta(days=10))
            .sign(private, SHA256())
        )
        entry = Entry(
            names=[DOMAIN],
            chain=expired.public_bytes(Encoding.PEM).decode(),
            key=site.store.seal(SERVICE, key),
            renew_at=(now - timedelta(days=40)).timestamp(),
            check_at=(now - timedelta(days=90)).timestamp(),
        )
        await site.store.save(SERVICE, entry)
        async with site:
            await site.until(lambda: site.serial(DOMAIN) != expired.serial_number)
            assert site.names(DOMAIN) == {DOMAIN} and not site.reports

    opened(tmp_path / "bucket", scenario)


def test_order_that_stays_pending_is_reported_and_continued(
    pebble: Pebble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managing, "ORDER_SECONDS", 0.5)

    async def scenario(bucket: FolderBucket) -> None:
        pebble.stop()
        await asyncio.to_thread(partial(pebble.start, PEBBLE_VA_NOSLEEP="0", PEBBLE_VA_SLEEPTIME="1000000"))
        async with Site(pebble, bucket, tmp_path) as site:
            await site.until(lambda: bool(site.reports))
            assert "the order is still pending after" in site.reports[0][1]
            first = await site.settled(SERVICE)
            site.ahead = 3601
            await site.until(lambda: len(site.reports) == 2)
            second = await site.settled(SERVICE)
            assert first.order is not None and second.order is not None
            assert second.order.url == first.order.url and len(second.ordered) == 1

    opened(tmp_path / "bucket", scenario)


def test_refused_nonces_do_not_fail_an_order(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        pebble.stop()
        await asyncio.to_thread(partial(pebble.start, PEBBLE_WFE_NONCEREJECT="25"))
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": SHOP}
            await site.until(lambda: site.issued(SHOP[0]))
            assert not site.reports

    opened(tmp_path / "bucket", scenario)


def test_new_hosts_of_a_project_extend_its_certificate(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": SHOP[:1]}
            await site.until(lambda: site.issued(SHOP[0]))
            site.hosts = {"shop": [*SHOP, "shop.example.net"]}
            site.manager.activated("shop")
            await site.until(lambda: site.issued("shop.example.net"))
            assert site.names(SHOP[0]) == {*SHOP, "shop.example.net"}

    opened(tmp_path / "bucket", scenario)


def test_two_nodes_obtain_one_certificate(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": SHOP}
            other: list[CertificateSet] = []
            second = CertificateManager(
                pebble.settings,
                site.store,
                domain=DOMAIN,
                hosts=lambda: site.hosts,
                use=other.append,
                report=lambda project, text: site.reports.append((project, text)),
                node="n2",
            )
            await second.start()
            running = asyncio.create_task(second.run())
            await site.until(lambda: site.issued(SHOP[0]) and SHOP[0] in other[-1].named)
            assert other[-1].named[SHOP[0]] == site.used[-1].named[SHOP[0]]
            assert len((await site.store.all())[owner_of("shop")].ordered) == 1
            await cancel([running])

    opened(tmp_path / "bucket", scenario)


def test_order_of_a_lost_node_is_continued_by_another_after_its_lease(pebble: Pebble, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        site = Site(pebble, bucket, tmp_path)
        site.hosts, site.node = {"shop": SHOP}, "n1"
        site.start()
        save, reached, reads = site.store.save, asyncio.Event(), 0

        async def stop_at(owner: str, entry: Entry) -> None:
            if owner != SERVICE and entry.order is not None and entry.order.tokens:
                reached.set()
                await asyncio.Event().wait()
            await save(owner, entry)

        async with site:
            site.store.save = stop_at  # type: ignore[method-assign]
            await asyncio.wait_for(reached.wait(), 60)
            await site.kill()
            site.store.save = save  # type: ignore[method-assign]
            site.node = "n2"
            site.start()
            list_all = site.store.all

            async def counted() -> dict[str, Entry]:
                nonlocal reads
                reads += 1
                return await list_all()

            site.store.all = counted  # type: ignore[method-assign]
            await site.run()
            await site.until(lambda: reads > 5)
            entry = (await list_all())[owner_of("shop")]
            assert entry.holder == "n1" and not site.issued(SHOP[0])
            site.ahead = managing.CLAIM_SECONDS + 1
            await site.until(lambda: site.issued(SHOP[0]))
            entry = await site.settled(owner_of("shop"))
            assert entry.holder == "n2" and len(entry.ordered) == 1 and not site.reports

    opened(tmp_path / "bucket", scenario)


def test_project_with_too_many_names_is_reported_and_gets_the_first_ones(
    pebble: Pebble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managing, "MAX_NAMES", 2)

    async def scenario(bucket: FolderBucket) -> None:
        async with Site(pebble, bucket, tmp_path) as site:
            site.hosts = {"shop": [*SHOP, "z--shop.apps.example.com"]}
            site.manager.activated("shop")
            await site.until(lambda: site.issued(SHOP[0]))
            assert site.names(SHOP[0]) == set(SHOP) and not site.issued("z--shop.apps.example.com")
            ((project, text),) = site.reports
            assert project == "shop" and "3 public host names" in text

    opened(tmp_path / "bucket", scenario)


WILDCARD = f"*.{DOMAIN}"
CHALLENGE = f"_acme-challenge.{DOMAIN}"


@pytest.fixture
def knot(cache: Path, tmp_path: Path) -> Iterator[Knot]:
    with name_server(cache, tmp_path / "knot") as running:
        yield running


@pytest.fixture
def zoned(cache: Path, tmp_path: Path, knot: Knot) -> Iterator[Pebble]:
    """An authority that resolves names by the server of the zone."""
    with authority(cache, tmp_path / "pebble", dns=f"{knot.address}:{knot.port}") as running:
        yield running


def test_wildcard_covers_projects_and_their_domains_have_own_certificates(
    zoned: Pebble, knot: Knot, tmp_path: Path
) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        site = Site(zoned, bucket, tmp_path, DnsProvider(RFC2136, DOMAIN, knot.environ()))
        site.hosts = {"blog": [f"blog.{DOMAIN}"], "shop": [*SHOP, "shop.example.com"]}
        async with site:
            await site.until(lambda: site.issued("shop.example.com"))
            await site.until(lambda: site.names(SHOP[0]) == {DOMAIN, WILDCARD})
            assert site.names("shop.example.com") == {"shop.example.com"}
            assert site.names(f"blog.{DOMAIN}") == site.names("any." + DOMAIN) == {DOMAIN, WILDCARD}
            await site.settled(SERVICE)
            assert not knot.texts(CHALLENGE) and not site.reports
            assert set(await site.store.all()) == {SERVICE, owner_of("shop")}

    opened(tmp_path / "bucket", scenario)


def test_wildcard_replaces_certificates_of_projects_and_back(
    zoned: Pebble, knot: Knot, tmp_path: Path
) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        site = Site(zoned, bucket, tmp_path)
        site.hosts = {"shop": SHOP}
        async with site:
            for dns, names in (
                (None, set(SHOP)),
                (DnsProvider(RFC2136, DOMAIN, knot.environ()), {DOMAIN, WILDCARD}),
            ):
                await site.kill()
                site.dns = dns
                site.start()
                await site.run()
                await site.until(lambda names=names: site.names(SHOP[0]) == names)
            await site.kill()
            site.dns = None
            entry = (await site.store.all())[SERVICE]
            entry.renew_at = 0
            await site.store.save(SERVICE, entry)
            site.start()
            await site.run()
            await site.until(lambda: site.names(SHOP[0]) == set(SHOP))
            await site.until(lambda: site.names(DOMAIN) == {DOMAIN})
            assert not site.reports

    opened(tmp_path / "bucket", scenario)


def test_refused_update_is_reported_and_tried_again(zoned: Pebble, knot: Knot, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        environ = knot.environ()
        environ["LEXICON_RFC2136_AUTH_TOKEN"] = "hmac-sha256:svc:b3RoZXI="
        site = Site(zoned, bucket, tmp_path, DnsProvider(RFC2136, DOMAIN, environ))
        async with site:
            await site.until(lambda: bool(site.reports))
            ((project, text),) = site.reports
            assert (
                not project and f"cannot create the record {CHALLENGE}" in text and "PeerBadSignature" in text
            )
            await site.kill()
            site.dns = DnsProvider(RFC2136, DOMAIN, knot.environ())
            site.start()
            await site.run()
            await site.until(lambda: site.names(DOMAIN) == {DOMAIN, WILDCARD})
            entry = await site.settled(SERVICE)
            assert not entry.failures and len(entry.ordered) == 1 and not knot.texts(CHALLENGE)

    opened(tmp_path / "bucket", scenario)


def test_wildcard_is_proven_where_a_cname_leads(cache: Path, tmp_path: Path) -> None:
    place = "apps.acme.example.com"

    async def scenario(bucket: FolderBucket) -> None:
        site = Site(pebble, bucket, tmp_path, DnsProvider(RFC2136, DOMAIN, knot.environ()))
        async with site:
            await site.until(lambda: site.names(DOMAIN) == {DOMAIN, WILDCARD})
            entry = await site.settled(SERVICE)
            assert len(entry.ordered) == 1 and not site.reports and not knot.texts(place)

    with (
        name_server(cache, tmp_path / "knot", records=f"{CHALLENGE}. CNAME {place}.\n") as knot,
        authority(cache, tmp_path / "pebble", dns=f"{knot.address}:{knot.port}") as pebble,
    ):
        opened(tmp_path / "bucket", scenario)
