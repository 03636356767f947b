"""Connects to other servers, at addresses that were checked.

Owns the rule which addresses a name may lead to. It is applied after the name was resolved, and what is
connected to is the very address that was checked: a name server that answers otherwise the next time
(DNS rebinding) gains nothing. The C library's resolver is asked; nothing here knows of HTTP.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpcore

from engine.wasm.outbound.egress import Egress, is_address

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""From a host name to its addresses, in the order to try them; raises `OSError`."""
CONNECT_SECONDS = 10.0
ATTEMPT_SECONDS = 2.5
"""How long an address is tried while there are others."""
MAX_LOOKUPS = 64
"""Names that are looked up at once, of all Resources."""
MAX_LOOKUPS_PER_RESOURCE = 8
"""Names that are looked up at once for one Resource."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressDenied(Exception):
    """A name leads only to addresses that `egress` does not name; `address` is the first of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(str(address))
        self.address = address


class NameNotResolved(httpcore.ConnectError):
    """A name has no address."""


class SystemResolver:
    """Asks the system for the addresses of a name, in threads of its own.

    A name server may take its time, and the question can not be taken back: the threads that everything else
    shares (files, Doors) are not to wait for it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="resolver")

    async def __call__(self, host: str) -> list[str]:
        """Return the addresses. Raises `OSError`."""
        ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def close(self) -> None:
        """Ask no more; what was asked ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_public(address: Address) -> bool:
    """Whether an address is one of the Internet's: not of a host, a link, a private network or a group.

    IPv6 forms that stand for an IPv4 address (mapped, NAT64, 6to4) are that address. Source: IANA's
    special-purpose address registries (RFC 6890), as Python's `ipaddress` knows them.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        return address in _GLOBAL_UNICAST and address.is_global
    return address.is_global and not address.is_multicast


class Dialer(httpcore.AsyncNetworkBackend):
    """The network as one Resource may use it."""

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()
        self._lookups = asyncio.Semaphore(MAX_LOOKUPS_PER_RESOURCE)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an origin's host. Raises `Prohibited`, and what httpcore raises."""
        try:
            async with asyncio.timeout(timeout or CONNECT_SECONDS):
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
            return [host]  # Only an entry that is this very address allows it.
        try:
            found = await self._lookup(host)
        except OSError as error:
            raise NameNotResolved(str(error)) from error
        addresses = [ip_address(text) for text in found]
        if not addresses:
            raise NameNotResolved(host)
        allowed = [str(address) for address in addresses if self._is_allowed(host, port, address)]
        if not allowed:
            raise AddressDenied(addresses[0])
        return allowed

    async def _lookup(self, host: str) -> list[str]:
        """Ask for a name, whose place is taken until there is an answer, whoever still waits for it."""
        await self._lookups.acquire()
        asked = asyncio.ensure_future(self._resolve(host))
        asked.add_done_callback(self._on_lookup_done)
        return await asyncio.shield(asked)

    def _on_lookup_done(self, asked: "asyncio.Future[list[str]]") -> None:
        self._lookups.release()
        if not asked.cancelled():
            asked.exception()

    def _is_allowed(self, host: str, port: int, address: Address) -> bool:
        if address.is_loopback and (host == "localhost" or host.endswith(".localhost")):
            return True
        named = any(rule.host == str(address) and rule.port == port for rule in self._egress.allowed)
        return named or is_public(address)
