"""Who is at the other end of connections, and how many each of them has. Owns those counts."""

import ipaddress
import socket
from collections import Counter
from typing import Any

PER_ADDRESS = 256
"""Connections that one address may have: a house of browsers, or an office behind one address."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_ESTABLISHED = 1  # tcp_info.tcpi_state


class ConnectionLimiter:
    """Counts connections by address. Those from this machine are free: a proxy on it speaks for everybody."""

    def __init__(self, most: int = PER_ADDRESS, *, local_is_free: bool = True) -> None:
        """`most` is what each address may have; 0 for no limit."""
        self.limit = most
        self._local_is_free = local_is_free
        self._counts = Counter[str]()

    def acquire(self, address: str) -> bool:
        """Count a connection, which `leave` has to follow; false for one too many, which is not counted."""
        if self._is_free(address):
            return True
        whose = client_key(address)
        if self._counts[whose] >= self.limit:
            return False
        self._counts[whose] += 1
        return True

    def release(self, address: str) -> None:
        """Note that a connection that was counted has ended."""
        if self._is_free(address):
            return
        whose = client_key(address)
        self._counts[whose] -= 1
        if not self._counts[whose]:
            del self._counts[whose]

    def _is_free(self, address: str) -> bool:
        return not self.limit or (self._local_is_free and is_loopback(address))


def client_key(address: str) -> str:
    """Return whom an address stands for: itself, or of IPv6 the 64 bits that one household has."""
    found = parse_ip(address)
    if found is None:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own, which nobody else can have."""
    found = parse_ip(address)
    return found is not None and found.is_loopback


def peer_connected(opened: Any) -> bool:
    """Whether the other side of a connection is there, as far as this system knows and tells."""
    if not hasattr(socket, "TCP_INFO"):
        return True
    try:
        return bool(opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:
        return False


def parse_ip(address: str) -> Address | None:
    """Return an address, or `None` for what is none; an IPv4 address within IPv6 is the IPv4 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
