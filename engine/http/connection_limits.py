"""A limit on the connections of each client address."""

import ipaddress
import socket
from collections import Counter
from typing import Any

PER_ADDRESS = 256
"""The maximum number of connections for an address, which a household or an office may share."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_ESTABLISHED = 1  # tcp_info.tcpi_state


class ConnectionLimiter:
    """A counter of connections by address. Loopback is exempt: a local proxy connects for all its clients."""

    def __init__(self, limit: int = PER_ADDRESS, *, local_is_free: bool = True) -> None:
        """Allow each address `limit` connections; 0 means no limit."""
        self.limit = limit
        self._local_is_free = local_is_free
        self._counts = Counter[str]()

    def acquire(self, address: str) -> bool:
        """Count a connection until `release`; return false, without counting, if it exceeds the limit."""
        if self.is_exempt(address):
            return True
        key = client_key(address)
        if self._counts[key] >= self.limit:
            return False
        self._counts[key] += 1
        return True

    def release(self, address: str) -> None:
        """Subtract a counted connection that has ended."""
        if self.is_exempt(address):
            return
        key = client_key(address)
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

    def is_exempt(self, address: str) -> bool:
        """Return whether an address has no limit."""
        parsed = parse_ip(address) if self._local_is_free else None
        return not self.limit or (parsed is not None and parsed.is_loopback)


def client_key(address: str) -> str:
    """Return the key of an address: itself, or for IPv6 its /64 network, which one household has."""
    parsed = parse_ip(address)
    if parsed is None:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def peer_connected(connection: Any) -> bool:
    """Return whether the peer is still connected; always true where the system does not report it."""
    if not hasattr(socket, "TCP_INFO"):
        return True
    try:
        return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:
        return False


def parse_ip(address: str) -> Address | None:
    """Return the parsed address, or `None` if it is invalid; unmap an IPv4-mapped IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
