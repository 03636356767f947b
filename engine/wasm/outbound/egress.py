"""Which origins a guest may call: the manifest's `egress`.

Owns how origins are written, and their matching. To which addresses a name may lead is in `dialer.py`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (lower-case; an address in its usual form, IPv6 without brackets) and port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Return `host[:port]`, as a request's `host` field has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=1024)
def parse_authority(scheme: str, authority: str) -> Origin:
    """Return the origin of a scheme and `host[:port]`; raise `ValueError` when it is not one.

    A host is a name of letters, digits, `-` and `_` (other alphabets: in Punycode), an IPv4 address of four
    decimal numbers, or an IPv6 address in brackets. What resolvers also take for an address (`127.1`,
    `2130706433`, `0x7f.1`, octal numbers, zones) is none of these.
    """
    if scheme not in _PORTS:
        raise ValueError(scheme)
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(authority)
        host, port = _ipv6(host), rest[1:]
    else:
        host, _, port = authority.partition(":")
        host = _name(host.lower().removesuffix("."))
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise ValueError(authority)
    number = int(port) if port else _PORTS[scheme]
    if not 0 < number < 65536:
        raise ValueError(authority)
    return Origin(scheme, host, number)


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError(text)
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise ValueError(text) from None


def _name(text: str) -> str:
    labels = text.split(".")
    if len(text) > _NAME_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(text)
    if _NUMBER.fullmatch(labels[-1]) and str(IPv4Address(text)) != text:
        raise ValueError(text)
    return text


def parse_rule(entry: str) -> Origin:
    """Return the origin of an entry of `egress`; raise `ValueError` when it is not one.

    Its host may begin with `*.`, which stands for one or more labels of a name.
    """
    scheme, separator, authority = entry.partition("://")
    authority = authority.removesuffix("/")
    if not separator:
        raise ValueError(entry)
    if not authority.startswith("*."):
        return parse_authority(scheme, authority)
    parent = parse_authority(scheme, authority[2:])
    if is_address(parent.host):
        raise ValueError(entry)
    return Origin(scheme, f"*.{parent.host}", parent.port)


def is_address(host: str) -> bool:
    """Whether an origin's host is an IP address rather than a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


@dataclass(frozen=True, slots=True)
class Egress:
    """The allowed origins of a Resource; `https://*.example.com` allows every name below, not the name."""

    allowed: tuple[Origin, ...]

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> "Egress":
        """Read manifest entries, which were validated there."""
        return cls(tuple(map(parse_rule, entries)))

    def allows(self, origin: Origin) -> bool:
        """Whether a request to this origin may leave."""
        return any(
            rule.scheme == origin.scheme
            and rule.port == origin.port
            and (
                rule.host == origin.host
                or (rule.host.startswith("*.") and origin.host.endswith(rule.host[1:]))
            )
            for rule in self.allowed
        )

    def line_adding(self, added: str) -> str:
        """Return the line of `svc.toml` that allows what is allowed now, and `added`."""
        entries = ", ".join(f'"{origin}"' for origin in (*map(str, self.allowed), added))
        return f"egress = [{entries}]"
