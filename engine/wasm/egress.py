"""Which origins a guest may call: the manifest's `egress`.

Owns the matching of origins; names are resolved elsewhere.
"""

from dataclasses import dataclass

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (lower-case; IPv6 without brackets) and port of a request."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def parse_authority(scheme: str, authority: str) -> Origin:
    """Return the origin of a scheme and `host[:port]`; raise `ValueError` when it is not one."""
    host, port = authority, ""
    if authority.startswith("["):
        host, bracket, port = authority[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError(authority)
        port = port[1:]
    elif ":" in authority:
        host, _, port = authority.partition(":")
    if scheme not in _PORTS or not host or (port and not (port.isascii() and port.isdigit())):
        raise ValueError(authority)
    number = int(port) if port else _PORTS[scheme]
    if not 0 < number < 65536:
        raise ValueError(authority)
    return Origin(scheme, host.lower().rstrip("."), number)


@dataclass(frozen=True, slots=True)
class Egress:
    """The allowed origins of a Resource; `https://*.example.com` allows every name below, not the name."""

    allowed: tuple[Origin, ...]

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> "Egress":
        """Read manifest entries, which were validated there."""
        origins = []
        for entry in entries:
            scheme, _, authority = entry.partition("://")
            origins.append(parse_authority(scheme, authority.rstrip("/")))
        return cls(tuple(origins))

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
