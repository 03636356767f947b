"""Checks of custom domains: what DNS returns for a name, and whether its addresses reach this service."""

import asyncio
import logging
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import httpcore

from engine.errors import SvcError
from engine.gateway.domain_proof import PATH, answer
from engine.service.domains import Domain, DomainStore

_log = logging.getLogger("svc.server")
_PORTS = {"http": 80, "https": 443}
TIMEOUT_SECONDS = 5.0
MAX_ADDRESSES = 8
MAX_CHECKS = 8
"""Maximum number of names that are checked at the same time."""
IDLE_SECONDS = 30
"""Time between looks for new names while all work."""
FIRST_SECONDS, LAST_SECONDS, VALID_SECONDS = 2, 300, 3600
"""Time between checks of a name: at first, after a long time without success, and of one that works."""


@dataclass(frozen=True, slots=True)
class Reached:
    """An address that DNS returned: `problem` is why it does not reach this service, or empty."""

    address: str
    problem: str


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """A DNS record to set."""

    type: str
    name: str
    value: str


class DomainChecks:
    """Checks names, on request and in the background."""

    def __init__(self, domain: str, origin: str, key: bytes) -> None:
        """`domain` and `origin` are those of the service's settings; `key` is that of its proofs."""
        self._domain, self._key = domain, key
        self._origin = origin
        self._slots = asyncio.Semaphore(MAX_CHECKS)

    async def addresses(self, name: str) -> list[str]:
        """Return the addresses that DNS has for a name. Raises `SvcError` if DNS does not answer."""
        # The final dot prevents that the resolver appends its search domains, which may lead to this service.
        absolute = name if await asyncio.to_thread(_is_host, name) else f"{name}."
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(absolute, None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
                return []
            raise SvcError(f"DNS fails for {name}: {error.strerror}", code="unavailable") from error
        except TimeoutError as error:
            raise SvcError(f"DNS does not answer for {name}", code="unavailable") from error
        return list(dict.fromkeys(str(each[4][0]) for each in found))[:MAX_ADDRESSES]

    async def records(self, name: str) -> list[DnsRecord]:
        """Return the records that point a name to this service: a CNAME, or its addresses.

        The addresses of its own domain are not known.
        """
        if name == self._domain:
            return []
        try:
            addresses = await self.addresses(self._domain)
        except SvcError:
            addresses = []
        types = [("A" if ip_address(each).version == 4 else "AAAA", each) for each in addresses]
        return [
            DnsRecord("CNAME", name, self._domain),
            *(DnsRecord(kind, name, each) for kind, each in types),
        ]

    async def check(self, name: str) -> tuple[list[Reached], str]:
        """Request a proof at each address of a name; return them, or why there are none."""
        async with self._slots:
            try:
                addresses = await self.addresses(name)
            except SvcError as error:
                return [], error.message
            problems = await asyncio.gather(*(self._problem(name, each, self._origin) for each in addresses))
        answers = [Reached(address, problem) for address, problem in zip(addresses, problems, strict=True)]
        return answers, "" if answers else "DNS has no address for this name"

    async def port_80(self, name: str, answers: list[Reached]) -> str:
        """Return which address of the service does not reach it at port 80, where authorities check names."""
        for each in answers:
            if not each.problem and (problem := await self._problem(name, each.address, "http://{}")):
                return f"the authority checks names at port 80: {each.address} {problem}"
        return ""

    async def _problem(self, name: str, address: str, origin: str) -> str:
        """Return why a name at an address does not reach this service, or ""."""
        url, token = urlsplit(origin.format("host")), secrets.token_urlsafe(24)
        host = f"[{address}]" if ":" in address else address
        port = f":{url.port}" if url.port else ""
        # The proof is in the answer. The certificate may not have the name yet.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                httpcore.AsyncConnectionPool(ssl_context=context) as pool,
                pool.stream(
                    "GET",
                    f"{url.scheme}://{host}{port}{PATH}{token}",
                    headers={"host": f"{name}{port}", "user-agent": "svc-domain"},
                    extensions={"sni_hostname": name},
                ) as response,
            ):
                received = b""
                async for part in response.aiter_stream():
                    received += part
                    if len(received) > 100:
                        break
        except TimeoutError:
            return f"does not answer within {TIMEOUT_SECONDS:.0f} s"
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError):
            return f"does not answer at {url.scheme.upper()}, port {port[1:] or _PORTS[url.scheme]}"
        if secrets.compare_digest(received, answer(self._key, name, token).encode()):
            return ""
        return f"is another server, which answers with {response.status}"


async def check_all(
    store: DomainStore, checks: DomainChecks, reload: Callable[[str], Awaitable[None]], woken: asyncio.Event
) -> None:
    """Check each declared name that is due, until canceled; `woken` ends a pause.

    `reload` is called with a project that has a new name.
    """

    async def check(project: str, domain: Domain) -> None:
        try:
            reached, detail = summary(*await checks.check(domain.name))
            if await store.checked(project, domain, reached=reached, detail=detail):
                await reload(project)
        except SvcError as error:
            _log.warning("the domain %s cannot be checked: %s; svc retries", domain.name, error.message)
        except Exception:
            _log.exception("the domain %s cannot be checked; svc retries", domain.name)

    while True:
        woken.clear()
        pause = IDLE_SECONDS
        try:
            declared = [(project, each) for project, names in await store.all() for each in names.values()]
            due = [check(*each) for each in declared if next_ns(each[1]) <= time.time_ns()]
            await asyncio.gather(*due)
            if any(each.state != "valid" for _, each in declared):
                pause = FIRST_SECONDS
        except SvcError as error:
            _log.warning("domains cannot be checked: %s; svc retries", error.message)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await woken.wait()


def _is_host(name: str) -> bool:
    """Return whether /etc/hosts has a name, where the resolver finds no name with a final dot."""
    try:
        lines = Path("/etc/hosts").read_text(errors="replace").lower().splitlines()
    except OSError:
        return False
    return any(name in line.partition("#")[0].split()[1:] for line in lines)


def next_ns(domain: Domain) -> int:
    """Return when a name is to be checked next: now, if the clock was ahead at the last check."""
    if domain.checked_ns > time.time_ns():
        return 0
    waited = (domain.checked_ns - domain.since_ns) // 10
    longest = VALID_SECONDS if domain.state == "valid" else LAST_SECONDS
    return domain.checked_ns + min(max(waited, FIRST_SECONDS * 10**9), longest * 10**9)


def summary(answers: list[Reached], problem: str) -> tuple[bool, str]:
    """Return whether a check reached this service, and its problems as a text."""
    problems = "; ".join(f"{each.address} {each.problem}" for each in answers if each.problem)
    return any(not each.problem for each in answers), problem or problems
