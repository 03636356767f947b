"""Custom domains of resources: their syntax and their normal form, lower-case ASCII (IDNA 2008)."""

import re

from engine.errors import SvcError

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
    """Return whether a name is a domain itself, or a name below it."""
    return name == domain or name.endswith(f".{domain}")
