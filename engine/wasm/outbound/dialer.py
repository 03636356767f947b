"""Opens connections to permitted addresses only.

The address rule is applied after name resolution, and the connection uses exactly the checked address. A name
server that changes its answer later (DNS rebinding) therefore gains nothing.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from time import perf_counter_ns

import httpcore

from engine.manifest.egress import Egress, is_address
from engine.trace import Call

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""Resolves a host name to addresses, in the order to try them; raises `OSError`."""
CONNECT_SECONDS = 10.0
ATTEMPT_SECONDS = 2.5
"""Connect timeout per address while further addresses remain."""
MAX_LOOKUPS = 64
"""Concurrent name lookups of all resources."""
MAX_LOOKUPS_PER_RESOURCE = 8
"""Concurrent name lookups of one resource."""
connecting: ContextVar[Call | None] = ContextVar("connecting", default=None)
"""The call whose task connects: a lookup sets `dns_ns` of it."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL = tuple(map(ip_network, ("192.0.0.0/24", "2001::/23", "3fff::/20", "168.63.129.16/32")))
"""Networks that versions of Python take for global; the last one is the host of a machine of Azure."""


class AddressDenied(Exception):
    """A name resolves only to addresses outside `egress`; `address` is the first of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(str(address))
        self.address = address


class NameNotResolved(httpcore.ConnectError):
    """A name has no address."""


class SystemResolver:
    """Resolves names through the operating system, in its own thread pool.

    A lookup can be slow and cannot be canceled, so it must not block the shared threads (files, Doors).
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="resolver")

    async def __call__(self, host: str) -> list[str]:
        """Return the addresses. Raises `OSError`."""
        lookup = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        entries = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def close(self) -> None:
        """Stop the pool; lookups in progress finish in the background."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_public(address: Address) -> bool:
    """Return whether an address is globally routable: not loopback, link-local, private or multicast.

    IPv6 forms of an IPv4 address (mapped, NAT64, 6to4) are checked as that IPv4 address. Source: IANA's
    special-purpose address registries (RFC 6890), as implemented in Python's `ipaddress`.
    """
    if any(address in network for network in _LOCAL):
        return False
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        return address in _GLOBAL_UNICAST and address.is_global
    return address.is_global and not address.is_multicast


def permitted(egress: Egress, host: str, port: int, addresses: Sequence[str]) -> list[str]:
    """Return the addresses of a host that may be connected to: public ones, and those that `egress` names.

    Raises `AddressDenied` if all are denied. There must be an address.
    """
    resolved = [ip_address(text) for text in addresses]
    loopback = host == "localhost" or host.endswith(".localhost")
    allowed = [
        str(address)
        for address in resolved
        if (address.is_loopback and loopback)
        or any(rule.host == str(address) and rule.port == port for rule in egress.allowed)
        or is_public(address)
    ]
    if not allowed:
        raise AddressDenied(resolved[0])
    return allowed


class Dialer:
    """Opens connections for one resource."""

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()
        self._lookups = asyncio.Semaphore(MAX_LOOKUPS_PER_RESOURCE)

    async def connect_tcp(
        self, host: str, port: int, seconds: float = CONNECT_SECONDS
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an origin's host. Raises AddressDenied and httpcore's errors."""
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses(host, port)
                for address in addresses[:-1]:
                    try:
                        return await self._network.connect_tcp(address, port, ATTEMPT_SECONDS)
                    except (httpcore.ConnectError, httpcore.ConnectTimeout):
                        continue
                return await self._network.connect_tcp(addresses[-1], port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host}:{port}") from None

    async def _addresses(self, host: str, port: int) -> list[str]:
        if is_address(host):
            return [host]  # `egress` allowed exactly this address.
        started, call = perf_counter_ns(), connecting.get()
        try:
            await self._lookups.acquire()
            lookup = asyncio.ensure_future(self._resolve(host))  # It has its slot even if this is canceled.
            lookup.add_done_callback(self._on_lookup_done)
            texts = await asyncio.shield(lookup)
        except OSError as error:
            raise NameNotResolved(str(error)) from error
        finally:
            if call is not None and call.details is not None:
                call.details["dns_ns"] = perf_counter_ns() - started
        if not texts:
            raise NameNotResolved(host)
        return permitted(self._egress, host, port, texts)

    def _on_lookup_done(self, lookup: "asyncio.Future[list[str]]") -> None:
        self._lookups.release()
        if not lookup.cancelled():
            lookup.exception()
