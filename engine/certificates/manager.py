"""Obtains and renews the certificates of a service: one for its own name, one for each project.

Certificates, orders and challenges are values of the bucket, their private keys are sealed. Every node of a
fleet runs the manager. Each reads the entries every few seconds, so all use what one obtained. A node claims
an entry before it changes it.
"""

import asyncio
import json
import logging
import random
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import TypeAdapter

from engine.bucket.protocols import KeyValue, StaleRevision
from engine.cancellation import cancel
from engine.certificates.private import new_key, self_signed
from engine.certificates.settings import AcmeSettings, AuthorityError
from engine.eager import in_task
from engine.errors import SvcError
from engine.gateway.routes import host_name
from engine.http.exchange import Exchange, Handler
from engine.http.tls import CertificateError, CertificateSet, IssuedCertificate
from engine.service.secrets import SecretsKey, SecretsKeyError

SERVICE = "service"
"""Owner of the certificate of the service's own name. That of a project is `projects/<project>`."""
PREFIX = "certificates/"
ACCOUNT = "acme/account"
CHALLENGES = "acme/challenges/"


def owner_of(project: str) -> str:
    return f"projects/{project}"


@dataclass(slots=True, kw_only=True)
class Order:
    """An order that has begun, with the sealed key of its certificate and its challenges.

    `tokens` are those of HTTP-01, `records` the names and texts of DNS-01.
    """

    url: str
    names: list[str]
    request: str
    key: Mapping[str, str]
    tokens: list[str] = field(default_factory=list)
    records: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Entry:
    """The certificate of an owner, and the attempts to obtain one. All times are Unix times.

    While `holder`, a node, attempts to renew it, no other node does so until `until`.
    """

    names: list[str] = field(default_factory=list)
    chain: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    renew_at: float = 0
    check_at: float = 0
    """When to ask the authority for the time of renewal."""
    order: Order | None = None
    ordered: list[float] = field(default_factory=list)
    """Orders of the last day."""
    tried: float = 0
    failures: int = 0
    retry_at: float = 0
    error: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names that the certificate should have and the authority refused, with its reasons."""
    left_out_failures: int = 0
    left_out_until: float = 0
    """When the names that are left out are tried again."""
    holder: str = ""
    until: float = 0
    revision: int | None = None
    """Revision in the bucket, `None` before it is stored."""


_FORM = TypeAdapter(Entry)


class ClaimLost(Exception):
    """Another node attempts to renew the certificate."""


class CertificateStore:
    """Reads and writes the values. Use on one event loop."""

    def __init__(self, cells: KeyValue, key: SecretsKey) -> None:
        self._cells, self._key = cells, key

    async def all(self) -> dict[str, Entry]:
        return {
            cell.key.removeprefix(PREFIX): replace(_FORM.validate_json(cell.value), revision=cell.revision)
            for cell in await self._cells.list(PREFIX)
        }

    async def save(self, owner: str, entry: Entry) -> None:
        """Store an entry. Raises `ClaimLost` if it was changed meanwhile."""
        value = json.dumps(asdict(entry)).encode()
        answer = await self._cells.cas(PREFIX + owner, value, entry.revision)
        if isinstance(answer, StaleRevision):
            raise ClaimLost
        entry.revision = answer

    def seal(self, owner: str, key: str) -> dict[str, str]:
        return self._key.seal(PREFIX + owner, key)

    def unseal(self, owner: str, sealed: Mapping[str, str]) -> str:
        """Return a private key (PEM). Raises `SecretsKeyError`."""
        return self._key.unseal(PREFIX + owner, sealed)

    async def account_key(self, *, other: bool = False) -> str:
        """Return the key of the account (PEM), or that of another one, also if it cannot be unsealed.

        Raises `ClaimLost` if another node creates it now.
        """
        cell = await self._cells.get(ACCOUNT)
        if cell is not None and not other:
            try:
                return self._key.unseal(ACCOUNT, json.loads(cell.value))
            except SecretsKeyError as error:
                _log.warning("%s; svc uses a new account at the certificate authority", error.message)
        key = new_key()
        sealed = json.dumps(self._key.seal(ACCOUNT, key)).encode()
        revision = cell.revision if cell is not None else None
        if isinstance(await self._cells.cas(ACCOUNT, sealed, revision), StaleRevision):
            raise ClaimLost
        return key

    async def set_challenge(self, token: str, *challenge: str) -> None:
        """Store the host name of a token and the text that the authority expects there, or remove them."""
        cell = await self._cells.get(CHALLENGES + token)
        if cell is not None or challenge:
            value = json.dumps(challenge).encode() if challenge else None
            await self._cells.cas(CHALLENGES + token, value, cell.revision if cell is not None else None)

    async def challenge(self, token: str, name: str) -> str | None:
        """Return the text for a token at the host `name`."""
        cell = await self._cells.get(CHALLENGES + token)
        expected, text = json.loads(cell.value) if cell is not None else ("", "")
        return str(text) if expected == name else None


if TYPE_CHECKING:
    from engine.certificates.authority import Authority

MAX_NAMES = 100
"""Maximum names of a certificate."""
MAX_ORDERS = 10
"""Maximum orders of a project in 24 hours."""
MAX_RETRY_HOURS = 24
MIN_WAIT_SECONDS = 60
"""Pause after the first failure for which the authority says when to try again; it doubles with each one."""
ORDER_SECONDS = 120.0
"""How long an attempt waits for the authority. A later one continues the same order."""
CLAIM_SECONDS = 600.0
TICK_SECONDS = 5.0
PARALLEL = 4
"""Maximum orders at the same time."""
CHECK_HOURS = 6
CLOCK_SECONDS = 3600.0
"""How far the clock may be from those of the authority and of other nodes."""
_DAY = 86400.0
_T = TypeVar("_T")
_log = logging.getLogger("svc.server")
Hosts = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the public host names of each project, the most important ones first."""


class CertificateManager:
    """The certificates of a service. Use on one event loop, by `start` and `run`."""

    def __init__(
        self,
        settings: AcmeSettings,
        store: CertificateStore,
        *,
        domain: str,
        hosts: Hosts,
        use: Callable[[CertificateSet], None],
        report: Callable[[str, str], None],
        alert: Callable[[str, str], None] = lambda project, text: None,
        node: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`use` replaces the certificates of the server.

        `report` gets a project, empty for the service, and the text of a failure. `alert` gets the same again
        and again while a problem lasts, and an empty text while there is none. `node` is this node of a
        fleet. `clock` returns Unix time.
        """
        self._settings, self._store, self._domain = settings, store, domain
        self._hosts, self._use, self._report, self._node, self._clock = hosts, use, report, node, clock
        self._alert = alert
        self.temporary = self_signed(domain)
        """The service's certificate before its first one."""
        self._known: dict[str, tuple[int | None, IssuedCertificate | None]] = {}
        """By owner, the certificate of a revision of its entry."""
        self._used: CertificateSet | None = None
        self._entries: Mapping[str, Entry] = {}
        """The entries as they were read last."""
        self._urgent: dict[str, float] = {}
        """Owners that are tried again before `retry_at`, unless they were tried since this time."""
        self._changed = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(PARALLEL)
        self._account = asyncio.Lock()

    def activated(self, project: str) -> None:
        """Order certificates that are needed: of the service, and of a project unless its name is empty."""
        owners = [SERVICE, owner_of(project)] if project else [SERVICE]
        self._urgent |= dict.fromkeys(owners, self._clock())
        self._changed.set()
        if (count := len(self._hosts().get(project, ()))) > MAX_NAMES:
            text = f"{project} has {count} public host names; its certificate has the first {MAX_NAMES}"
            self._report(project, f"{text}, the others use that of the service. Make fewer resources public.")

    def expected(self, name: str) -> bool:
        return name == self._domain or any(name in names for names in self._hosts().values())

    def failure(self, project: str, name: str) -> str:
        """Return why a project gets no certificate for a host name now; empty if it has one or gets one.

        The service has no project's name.
        """
        names = self._hosts().get(project, ()) if project else [self._domain]
        wild = self._settings.dns is not None and self._under_wildcard(name)
        if name in names[MAX_NAMES:] and not wild:
            return f"{project} has {len(names)} public host names; its certificate has the first {MAX_NAMES}"
        owner = SERVICE if wild or not project else owner_of(project)
        entry = self._entries.get(owner, Entry())
        attempted = owner in self._running or entry.until > self._clock()
        if name not in names or attempted or self._is_urgent(owner, entry):
            return ""
        if name in entry.left_out:
            return f"{entry.left_out[name]}; the next try is at {utc(entry.left_out_until)}"
        return f"{entry.error}; the next try is at {utc(entry.retry_at)}" if entry.error else ""

    def times(self) -> tuple[float, float]:
        """Return when the service's certificate is renewed, and its next try after a failure (or 0)."""
        entry = self._entries.get(SERVICE, Entry())
        return entry.renew_at, entry.retry_at

    async def challenge(self, token: str, name: str) -> str | None:
        """Return the text of a challenge for a host name of this service, or `None`."""
        return await self._store.challenge(token, name) if self.expected(name) else None

    async def start(self) -> None:
        self._apply(await self._store.all())

    async def run(self) -> None:
        """Obtain and renew certificates until canceled."""
        began = self._clock()
        self._urgent = dict.fromkeys(self._names_by_owner(), began) | self._urgent
        try:
            while True:
                self._changed.clear()
                try:
                    await self._tick()
                except SvcError as error:
                    _log.warning("the certificates cannot be read: %s", error.message)
                except Exception:
                    _log.exception("the certificates cannot be renewed")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), TICK_SECONDS)
        finally:
            await cancel(self._running.values())

    def _names_by_owner(self) -> dict[str, list[str]]:
        projects = {}
        for project, hosts in self._hosts().items():
            if names := [
                each for each in hosts if self._settings.dns is None or not self._under_wildcard(each)
            ]:
                projects[owner_of(project)] = names[:MAX_NAMES]
        own = [self._domain] if self._settings.dns is None else [self._domain, f"*.{self._domain}"]
        return {SERVICE: own} | projects

    def _under_wildcard(self, host: str) -> bool:
        return host.partition(".")[2] == self._domain

    async def _tick(self) -> None:
        """Use the certificates that are stored, and begin what is due."""
        entries = await self._store.all()
        self._apply(entries)
        expected = self._names_by_owner()
        for owner in entries.keys() - expected.keys():
            self._alert(owner.partition("/")[2], "")
        for owner, names in expected.items():
            entry = entries.get(owner, Entry())
            self._correct(owner, entry, names)
            problem = self._problem(owner, entry)
            # The node that tried last alerts. Any node may have solved the problem since then.
            if not problem or entry.holder == self._node:
                self._alert(owner.partition("/")[2], problem)
            due_names = self._due_names(owner, entry, names)
            if owner not in self._running and self._due(owner, entry, due_names):
                task = self._running[owner] = asyncio.create_task(self._attempt(owner, entry, due_names))
                task.add_done_callback(partial(self._end, owner))

    def _correct(self, owner: str, entry: Entry, names: Sequence[str]) -> None:
        """Forget problems of names that a project had, and times that a wrong clock set too far ahead."""
        entry.left_out = {name: entry.left_out[name] for name in names if name in entry.left_out}
        if not self._needed(owner, entry, names):
            entry.error, entry.failures, entry.retry_at = "", 0, 0
        latest = self._clock() + CLOCK_SECONDS
        if entry.tried > latest or entry.until > latest + CLAIM_SECONDS or entry.check_at > latest + _DAY:
            entry.tried = entry.until = entry.check_at = entry.retry_at = entry.left_out_until = 0
            entry.ordered = [each for each in entry.ordered if each <= latest]

    def _end(self, owner: str, _task: asyncio.Task[None]) -> None:
        del self._running[owner]
        self._changed.set()

    def _is_urgent(self, owner: str, entry: Entry) -> bool:
        return entry.tried < self._urgent.get(owner, 0)

    def _due_names(self, owner: str, entry: Entry, names: list[str]) -> list[str]:
        """Return the names to order now: without those that are left out, until they are tried again."""
        if self._is_urgent(owner, entry) or entry.left_out_until <= self._clock():
            return names
        return [name for name in names if name not in entry.left_out] or names

    def _due(self, owner: str, entry: Entry, names: Sequence[str]) -> bool:
        now = self._clock()
        if entry.holder != self._node and entry.until > now:
            return False
        if self._needed(owner, entry, names):
            return entry.retry_at <= now or self._is_urgent(owner, entry)
        return entry.check_at <= now

    def _certificate(self, owner: str) -> IssuedCertificate | None:
        return self._known.get(owner, (None, None))[1]

    def _needed(self, owner: str, entry: Entry, names: Sequence[str]) -> bool:
        usable = self._certificate(owner) is not None
        return not usable or not set(names) <= set(entry.names) or entry.renew_at <= self._clock()

    def _apply(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        for owner, entry in entries.items():
            if self._known.get(owner, (None, None))[0] != entry.revision:
                self._known[owner] = entry.revision, self._issued(owner, entry)
        named: dict[str, IssuedCertificate] = {}
        own = entries.get(SERVICE, Entry()).names if self._certificate(SERVICE) is not None else []
        for project, names in self._hosts().items():
            certificate = self._certificate(owner_of(project))
            if certificate is not None:
                covered = entries[owner_of(project)].names
                named |= {
                    name: certificate
                    for name in names
                    if name in covered and not (f"*.{self._domain}" in own and self._under_wildcard(name))
                }
        certificates = CertificateSet(self._certificate(SERVICE) or self.temporary, named)
        if certificates != self._used:
            self._use(certificates)
            self._used = certificates

    def _issued(self, owner: str, entry: Entry) -> IssuedCertificate | None:
        if not entry.chain:
            return None
        try:
            certificate = IssuedCertificate(entry.chain, self._store.unseal(owner, entry.key))
            certificate.context()
        except (SecretsKeyError, CertificateError) as error:
            _log.warning("the certificate of %s cannot be used: %s; svc orders another", owner, error.message)
            return None
        return certificate

    async def _attempt(self, owner: str, entry: Entry, names: list[str]) -> None:
        """Obtain or renew a certificate, or ask when to renew it. Failures are recorded."""
        async with self._turns:
            try:
                entry.holder, entry.until = self._node, self._clock() + CLAIM_SECONDS
                entry.tried = self._clock() if self._needed(owner, entry, names) else entry.tried
                await self._store.save(owner, entry)
                try:
                    await self._step(owner, entry, names)
                except (AuthorityError, CertificateError, SecretsKeyError) as error:
                    if self._needed(owner, entry, names):
                        wait = error.wait if isinstance(error, AuthorityError) else 0.0
                        self._fail(owner, entry, error.message, wait)
                    else:
                        entry.check_at = self._clock() + CHECK_HOURS * 3600
                entry.until = 0
                await self._store.save(owner, entry)
            except ClaimLost:
                return
            except SvcError as error:
                _log.warning("the certificate of %s cannot be stored: %s", owner, error.message)
                await asyncio.sleep(TICK_SECONDS)
            except Exception:
                _log.exception("the certificate of %s cannot be renewed", owner)
                await asyncio.sleep(TICK_SECONDS)

    def _retry_at(self, failures: int, wait: float) -> float:
        """Return when to try again: after a pause, and not before the `wait` of the authority."""
        first = MIN_WAIT_SECONDS if wait else 3600
        return self._clock() + max(min(first << max(failures - 1, 0), MAX_RETRY_HOURS * 3600), wait)

    def _fail(self, owner: str, entry: Entry, text: str, wait: float) -> None:
        entry.failures += entry.retry_at <= self._clock()  # Not for a try before its time.
        entry.retry_at, entry.error = self._retry_at(entry.failures, wait), text
        if entry.order is None and len(entry.ordered) >= MAX_ORDERS:
            entry.retry_at = max(entry.retry_at, entry.ordered[0] + _DAY)
        self._report(owner.partition("/")[2], self._problem(owner, entry))

    def _problem(self, owner: str, entry: Entry) -> str:
        """Return why a certificate was not obtained or is without names, or an empty text."""
        name = owner.partition("/")[2] or self._domain
        if entry.error:
            return f"no new certificate for {name}: {entry.error}; the next try is at {utc(entry.retry_at)}"
        reasons = "; ".join(f"{left}: {reason}" for left, reason in entry.left_out.items())
        return reasons and (
            f"the certificate of {name} is without {len(entry.left_out)} of its names: {reasons};"
            f" the next try is at {utc(entry.left_out_until)}"
        )

    async def _step(self, owner: str, entry: Entry, names: list[str]) -> None:
        from engine.certificates.authority import Authority

        async with self._account:
            account_key = await self._store.account_key()
            try:
                authority = await in_thread(Authority, self._settings, account_key)
            except AuthorityError as error:
                if error.type != "unauthorized":
                    raise
                account_key = await self._store.account_key(other=True)  # The account was deactivated.
                authority = await in_thread(Authority, self._settings, account_key)
        if self._needed(owner, entry, names):
            await self._obtain(authority, owner, entry, names)
        await self._ask_renewal(authority, owner, entry)

    async def _ask_renewal(self, authority: "Authority", owner: str, entry: Entry) -> None:
        """Use the time of renewal that the authority suggests. For a revoked certificate, it is now."""
        entry.check_at = self._clock() + CHECK_HOURS * 3600
        try:
            when, again = await in_thread(authority.renewal, entry.chain)
        except AuthorityError as error:
            _log.debug("no renewal information: %s", error.message)
            return
        if when is not None:
            if when <= self._clock() < entry.renew_at - _DAY:
                project = owner.partition("/")[2]
                text = (
                    f"the authority asks for the renewal of the certificate of {project or self._domain} now"
                )
                self._report(project, f"{text}, as if it was revoked; svc orders another")
            begin, end = validity(entry.chain)
            entry.renew_at = min(when, end - (end - begin) / 10)
        entry.check_at = min(max(again, self._clock() + 60), self._clock() + _DAY)

    async def _obtain(self, authority: "Authority", owner: str, entry: Entry, names: list[str]) -> None:
        """Obtain a certificate with those of the names that the authority does not refuse.

        Raises `AuthorityError`.
        """
        asked, refused = names, dict[str, str]()
        while self._needed(owner, entry, names):
            try:
                chain, key = await self._complete(authority, owner, entry, names)
            except AuthorityError as error:
                rest = [name for name in names if name not in error.names]
                if not rest or rest == names:
                    raise
                entry.left_out_failures += not refused and entry.left_out_until <= self._clock()
                entry.left_out_until = self._retry_at(entry.left_out_failures, error.wait)
                entry.until = self._clock() + CLAIM_SECONDS
                refused |= error.names
                entry.left_out |= error.names
                names = rest
            else:
                entry.chain, entry.key, entry.names = chain, key, names
                entry.renew_at = renewal_time(chain)
                break
        entry.failures, entry.retry_at, entry.error = 0, 0, ""
        left = entry.left_out.items()
        entry.left_out = {name: text for name, text in left if name in refused or name not in asked}
        if refused:
            self._report(owner.partition("/")[2], self._problem(owner, entry))
        elif not entry.left_out:
            entry.left_out_failures, entry.left_out_until = 0, 0

    async def _complete(
        self, authority: "Authority", owner: str, entry: Entry, names: list[str]
    ) -> tuple[str, Mapping[str, str]]:
        """Return a new certificate chain and its sealed key; an order that has begun is continued.

        Raises `AuthorityError`.
        """
        order = await self._continued(authority, entry, names)
        if order is None:
            now = self._clock()
            entry.ordered = [each for each in entry.ordered if each > now - _DAY]
            if len(entry.ordered) >= MAX_ORDERS:
                raise AuthorityError(f"it had {MAX_ORDERS} orders in 24 hours, the limit of svc")
            key = new_key()
            entry.ordered.append(now)
            await self._store.save(owner, entry)  # An order counts even if it cannot be stored.
            try:
                url, request = await in_thread(authority.order, key, names)
            except AuthorityError as error:
                if error.type:  # It was refused: there is none.
                    entry.ordered.remove(now)
                raise
            order = Order(url=url, names=names, request=request, key=self._store.seal(owner, key))
            entry.order = order
            await self._store.save(owner, entry)
        deadline, pause, answered = time.monotonic() + ORDER_SECONDS, 0.25, False
        while True:
            status = await in_thread(authority.status, order.url)
            if status == "pending" and not answered:
                await self._prove(authority, owner, entry, order)
                deadline, answered = time.monotonic() + ORDER_SECONDS, True
            elif status == "ready":
                await in_thread(authority.finalize, order.url, order.request)
            elif status == "valid":
                chain = await in_thread(authority.certificate, order.url)
                break
            elif status == "invalid":
                failure = await in_thread(authority.failure, order.url)
                await self._drop(entry)
                raise failure
            if time.monotonic() > deadline:
                raise AuthorityError(f"the order is still {status} after {ORDER_SECONDS:.0f} s")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 5.0)
        await self._drop(entry)
        if problem := mismatch(chain, self._store.unseal(owner, order.key), names, self._clock()):
            raise AuthorityError(problem)
        return chain, order.key

    async def _prove(self, authority: "Authority", owner: str, entry: Entry, order: Order) -> None:
        """Answer the challenges of an order. Raises `AuthorityError`."""
        provider = self._settings.dns if owner == SERVICE else None
        if provider is None:
            offered = await in_thread(authority.challenges, order.url, "http-01")
            order.tokens = sorted({*order.tokens, *(each.token for each in offered)})
            await self._store.save(owner, entry)
            for each in offered:
                await self._store.set_challenge(each.token, each.name, each.text)
        else:
            offered = await in_thread(authority.challenges, order.url, "dns-01")
            records = [(each.name, each.text) for each in offered]
            order.records = [*order.records, *(each for each in records if each not in order.records)]
            await self._store.save(owner, entry)
            await in_thread(provider.add, records)
        await in_thread(authority.answer, offered)

    async def _continued(self, authority: "Authority", entry: Entry, names: list[str]) -> Order | None:
        """Return the order that an earlier attempt has begun, if it can still succeed."""
        if entry.order is not None and entry.order.names == names:
            try:
                if await in_thread(authority.status, entry.order.url) != "invalid":
                    return entry.order
            except AuthorityError as error:
                if not error.type or error.type in ("rateLimited", "serverInternal", "badNonce"):
                    raise
        await self._drop(entry)
        return None

    async def _drop(self, entry: Entry) -> None:
        if entry.order is not None:
            for token in entry.order.tokens:
                await self._store.set_challenge(token)
            if entry.order.records and self._settings.dns is not None:
                try:
                    await in_thread(self._settings.dns.remove, entry.order.records)
                except AuthorityError as error:
                    _log.warning("%s; remove it yourself", error.message)
            entry.order = None


def validity(chain: str) -> tuple[float, float]:
    """Return from when to when a certificate is valid, as Unix times."""
    leaf = x509.load_pem_x509_certificate(chain.encode())
    return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()


def renewal_time(chain: str) -> float:
    """Return when to renew a certificate if the authority does not say it, as a Unix time."""
    begin, end = validity(chain)
    # Jitter spreads the renewals of certificates that were ordered at the same time.
    return begin + (end - begin) * random.uniform(0.63, 2 / 3)


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def in_thread(work: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
    """Run a call on a daemon thread, so that an authority that does not answer delays no shutdown."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(work(*arguments))
        except BaseException as error:
            result.set_exception(error)

    result.set_running_or_notify_cancel()
    threading.Thread(target=run, name="acme", daemon=True).start()
    return asyncio.wrap_future(result)


def mismatch(chain: str, key: str, names: Sequence[str], now: float) -> str:
    """Return why a certificate chain cannot be used now for a key and host names, or an empty text."""
    try:
        leaf = x509.load_pem_x509_certificates(chain.encode())[0]
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        return f"the authority sent no usable certificate: {error}"
    missing = sorted({*names} - {*alternative.get_values_for_type(x509.DNSName)})
    if missing:
        return f"the certificate of the authority does not name {', '.join(missing)}"
    if leaf.public_key() != load_pem_private_key(key.encode(), None).public_key():
        return "the certificate of the authority is for another key"
    begin, end = validity(chain)
    if not begin - CLOCK_SECONDS <= now < end:
        return (
            f"the certificate of the authority is valid from {utc(begin)} to {utc(end)}, and the clock of"
            f" this machine is at {utc(now)}; correct the clock"
        )
    return ""


CHALLENGE_PATH = "/.well-known/acme-challenge/"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")


def challenges_and_redirects(
    find: Callable[[str, str], Awaitable[str | None]], domain: str, url_of: Callable[[str], str]
) -> Handler:
    """Return the handler of plain HTTP: it answers challenges and redirects all else to https.

    `find` returns the text of an HTTP-01 challenge for a token and a host name, `url_of` the https URL of a
    host name, without a path. Requests without a valid host are redirected to `domain`.
    """

    async def handle(exchange: Exchange) -> None:
        request = exchange.request
        host = next((value for name, value in request.headers if name == b"host"), b"").decode("latin-1")
        name = host_name(host)
        if request.path.startswith(CHALLENGE_PATH):
            await in_task()
            token = request.path.removeprefix(CHALLENGE_PATH)
            text = await find(token, name) if _TOKEN.fullmatch(token) else None
            kind, body = (b"text/plain", text.encode()) if text else (b"text/plain", b"not found\n")
            length = (b"content-length", str(len(body)).encode())
            await exchange.send_head(200 if text else 404, [(b"content-type", kind), length])
            await exchange.send_body(b"" if request.method == "HEAD" else body, end=True)
            return
        target = url_of(f"[{name}]" if ":" in name else name or domain) + (
            request.path if request.path[:1] == "/" else "/"
        )
        location = target.encode() + (b"?" + request.query if request.query else b"")
        await exchange.send_head(308, [(b"location", location), (b"content-length", b"0")])
        await exchange.send_body(b"", end=True)

    return handle
