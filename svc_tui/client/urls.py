"""Addresses of services as people type them: their one form, and which may be used without TLS."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from engine.errors import SvcError

_PORTS = {"http": 80, "https": 443}


class InvalidUrl(SvcError):
    """This is no address of a service, or none to send a password to."""

    code = "usage"


def service_url(text: str) -> str:
    """Return an address in its one form: scheme, host, and the port where it is not the usual one.

    Without a scheme it is https, but http on this machine. Raises `BadAddress`.
    """
    parts = _split(text.strip() if "://" in text else f"//{text.strip()}")
    host = (parts.hostname or "").lower().rstrip(".")
    try:
        port = parts.port
        host.encode("idna")
    except ValueError as error:
        raise _bad(text) from error
    scheme = parts.scheme or ("http" if is_loopback(host) else "https")
    if scheme not in _PORTS or not host or any(c.isspace() or ord(c) < 32 for c in text.strip()):
        raise _bad(text)
    if parts.username is not None or parts.password is not None:
        raise InvalidUrl("an address of a service has no user name in it", "Give it with --user.")
    if parts.query or parts.fragment or parts.path not in ("", "/"):
        raise _bad(text)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" if port in (None, _PORTS[scheme]) else f"{scheme}://{shown}:{port}"


def check_encryption(url: str, *, insecure: bool) -> bool:
    """Return whether what is sent to an address can be read on its way.

    Raises `BadAddress` for such an address unless `insecure` allows it.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return False
    if not insecure:
        raise InvalidUrl(
            f"passwords and sessions would travel to {url} in the clear",
            f"Use https://{parts.netloc}, a tunnel to this machine, or --insecure if you trust the network.",
        )
    return True


def is_loopback(host: str) -> bool:
    """Whether a host name or an address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise _bad(text) from error


def _bad(text: str) -> InvalidUrl:
    return InvalidUrl(
        f"{text[:100]!r} is no address of a service", "It is like https://svc.example.com or 127.0.0.1:8081."
    )
