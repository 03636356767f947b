"""Names of hosts: origins that `egress` allows, URLs of OpenTelemetry collectors, and custom domains.

Address rules are in `engine/wasm/outbound/connections.py`.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from engine.errors import SvcError

_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port. Hosts are lower-case; addresses are in canonical form, IPv6 without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """`host[:port]`, as in a request's `host` field."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=1024)
def parse_authority(scheme: str, authority: str) -> Origin:
    """Return the origin of a scheme and `host[:port]`. Raises `ValueError` if invalid.

    A host is a name of letters, digits, `-` and `_` (other alphabets in Punycode), an IPv4 address of four
    decimal numbers, or an IPv6 address in brackets. Other notations that resolvers accept as addresses
    (`127.1`, `2130706433`, `0x7f.1`, octal numbers, zones) are invalid.
    """
    if scheme not in _PORTS:
        raise ValueError(scheme)
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or "%" in host:
            raise ValueError(authority)
        host, port = str(IPv6Address(host)), rest[1:]
    else:
        host, _, port = authority.partition(":")
        host = host.lower().removesuffix(".")
        labels = host.split(".")
        if len(host) > _NAME_LENGTH or not all(map(_LABEL.fullmatch, labels)):
            raise ValueError(authority)
        if _NUMBER.fullmatch(labels[-1]) and str(IPv4Address(host)) != host:
            raise ValueError(authority)
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise ValueError(authority)
    number = int(port) if port else _PORTS[scheme]
    if not 0 < number < 65536:
        raise ValueError(authority)
    return Origin(scheme, host, number)


def parse_rule(entry: str) -> Origin:
    """Return the origin of an `egress` entry. Raises `ValueError` if invalid.

    The host may start with `*.`, which matches one or more labels.
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
    """Return whether an origin's host is an IP address rather than a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


@dataclass(frozen=True, slots=True)
class Egress:
    """The allowed origins of a resource. `https://*.example.com` matches subdomains only."""

    allowed: tuple[Origin, ...]

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> "Egress":
        """Parse manifest entries, which are already validated."""
        return cls(tuple(map(parse_rule, entries)))

    def allows(self, origin: Origin) -> bool:
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
        """Return the `egress` line for `svc.toml` that also allows `added`."""
        entries = ", ".join(f'"{origin}"' for origin in (*map(str, self.allowed), added))
        return f"egress = [{entries}]"


MAX_URL_CHARS = 2048
_PATH = re.compile(r"(/[!-~]*)?")


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector that accepts OTLP/HTTP. `path` is empty, or a prefix without `/` at its end."""

    origin: Origin
    path: str = ""

    def url(self, signal: str) -> str:
        return f"{self}/v1/{signal}"

    def __str__(self) -> str:
        return f"{self.origin}{self.path}"


@dataclass(frozen=True, slots=True)
class ProjectCollector:
    """The collector that a project names: its URL, and headers with the values of secrets."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def parse_collector(url: str) -> Collector:
    """Return the collector at a URL of scheme, host, port and path. Raises `ValueError` if invalid."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    path = slash + path
    if not separator or len(url) > MAX_URL_CHARS or not _PATH.fullmatch(path) or {"?", "#"} & set(path):
        raise ValueError(url)
    return Collector(parse_authority(scheme, authority), path.rstrip("/"))


MAX_DOMAINS = 20
"""Maximum number of domains of a resource."""
_PORT = re.compile(r"[^:]*:[0-9]+")
_ADDRESS = re.compile(r".*:.*|(.*\.)?([0-9]+|0x[0-9a-f]*)", re.DOTALL)
"""IPv6 addresses, and names that resolvers read as numbers."""
_WRITE = 'Write a full name: "shop.example.com".'


class DomainInvalid(SvcError):
    """A text is not a name that a resource can have."""

    code = "domain-invalid"


def parse_domain(text: str) -> str:
    """Return the normal form of a domain: lower-case, other alphabets in Punycode, without a final dot.

    Raises `DomainInvalid`.
    """
    import idna  # Workers parse no manifest.

    if "/" in text:
        name = text.partition("://")[2].partition("/")[0] or text.partition("/")[0]
        raise DomainInvalid(f'"{text}" is a URL', f'Write the name only: "{name}".')
    if "*" in text:
        raise DomainInvalid(f'"{text}" is a wildcard', "Write each name of the resource.")
    if _PORT.fullmatch(text):
        name = text.partition(":")[0]
        raise DomainInvalid(f'"{text}" has a port', f'Write the name only, "{name}": svc has one port.')
    try:
        name = (
            text if ":" in text else idna.encode(text.removesuffix("."), uts46=True, std3_rules=True).decode()
        )
        if _ADDRESS.fullmatch(name):
            raise DomainInvalid(f'"{text}" is an IP address', "Write a name whose DNS points to the service.")
        idna.decode(name)
    except (idna.IDNAError, UnicodeError) as error:
        raise DomainInvalid(f"{text[:80]!a} is not a domain: {error}"[:300], _WRITE) from error
    if "." not in name or name.endswith("."):
        raise DomainInvalid(f'"{text}" is not a full domain', _WRITE)
    return name


def below(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")
