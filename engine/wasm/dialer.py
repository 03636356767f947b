"""Connects to other servers, at addresses that were checked.

Owns the rule which addresses a name may lead to. It is applied after the name was resolved, and what is
connected to is the very address that was checked: a name server that answers otherwise the next time
(DNS rebinding) gains nothing. The C library's resolver is asked; nothing here knows of HTTP.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpcore

from engine.wasm.egress import Egress, is_address

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""From a host name to its addresses, in the order to try them; raises `OSError`."""
CONNECT_SECONDS = 10.0
NEXT_SECONDS = 2.5
"""How long an address is tried while there are others."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class Prohibited(Exception):
    """A name leads only to addresses that `egress` does not name; `address` is the first of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(str(address))
        self.address = address


class Unresolved(httpcore.ConnectError):
    """A name has no address."""


async def system_resolver(host: str) -> list[str]:
    """Ask the system for the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


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
                        return await self._network.connect_tcp(address, port, NEXT_SECONDS)
                    except (httpcore.ConnectError, httpcore.ConnectTimeout):
                        continue
                return await self._network.connect_tcp(addresses[-1], port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host}:{port}") from None

    async def _addresses(self, host: str, port: int) -> list[str]:
        if is_address(host):
            return [host]  # Only an entry that is this very address allows it.
        try:
            found = await self._resolve(host)
        except OSError as error:
            raise Unresolved(str(error)) from error
        addresses = [ip_address(text) for text in found]
        if not addresses:
            raise Unresolved(host)
        allowed = [str(address) for address in addresses if self._may_lead_to(host, port, address)]
        if not allowed:
            raise Prohibited(addresses[0])
        return allowed

    def _may_lead_to(self, host: str, port: int, address: Address) -> bool:
        if address.is_loopback and (host == "localhost" or host.endswith(".localhost")):
            return True
        named = any(rule.host == str(address) and rule.port == port for rule in self._egress.allowed)
        return named or is_public(address)
