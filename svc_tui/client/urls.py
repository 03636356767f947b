"""URLs of services: normalization, and the rule that requires TLS."""

import ipaddress
from urllib.parse import urlsplit

from engine.errors import InvalidUsage

_PORTS = {"http": 80, "https": 443}


class InvalidUrl(InvalidUsage):
    """A URL that is not a service's, or that would send a password unencrypted."""


def service_url(text: str) -> str:
    """Return a URL in its normal form: scheme, host, and the port unless it is the scheme's default.

    The default scheme is https, and http for loopback addresses. Raises `InvalidUrl`.
    """
    try:
        url = urlsplit(text.strip() if "://" in text else f"//{text.strip()}")
        host, port = (url.hostname or "").lower().rstrip("."), url.port
        host.encode("idna")
    except ValueError as error:
        raise _invalid(text) from error
    scheme = url.scheme or ("http" if is_loopback(host) else "https")
    if scheme not in _PORTS or not host or any(c.isspace() or ord(c) < 32 for c in text.strip()):
        raise _invalid(text)
    if url.username is not None or url.password is not None:
        raise InvalidUrl("the URL contains a user name", "Pass the user name with --user.")
    if url.query or url.fragment or url.path not in ("", "/"):
        raise _invalid(text)
    url_host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{url_host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{url_host}:{port}"


def check_encryption(url: str, *, insecure: bool) -> bool:
    """Return whether traffic to a URL is unencrypted on a network.

    Raises `InvalidUrl` for such a URL unless `insecure` allows it.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return False
    if not insecure:
        raise InvalidUrl(
            f"passwords and tokens would be sent to {url} unencrypted",
            f"Use https://{parts.netloc} or an SSH tunnel, or pass --insecure if you trust the network.",
        )
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _invalid(text: str) -> InvalidUrl:
    return InvalidUrl(
        f"{text[:100]!r} is not a service URL", "Use a URL such as https://svc.example.com or 127.0.0.1:8081."
    )
