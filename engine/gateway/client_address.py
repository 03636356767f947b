"""The address of the client of a request: the fields that guests receive, and proxies that report it."""

import ipaddress
import re
from collections.abc import Awaitable, Iterator
from functools import lru_cache

from engine.http.connection_limits import parse_ip
from engine.http.exchange import Exchange, Handler, Headers, Request

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
OWN_PREFIX = b"x-svc-"
"""Fields of a request with this prefix come from svc only."""
CLIENT_FIELDS = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-proto"})
"""Fields that svc sets, besides those with `OWN_PREFIX`."""
_LOCAL = "127.0.0.1"
"""The client of requests that svc itself makes: replays and health checks."""
_PAIR = re.compile(r'\s*([a-z]+)=("[^"%]*"|[^\s"%]*)\s*', re.IGNORECASE)
_PORT = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?|(.*)")


@lru_cache(maxsize=1024)
def client_fields(address: str | None, scheme: str) -> tuple[tuple[bytes, bytes], ...]:
    """Return the fields of a request that name its client and the scheme that the client used."""
    parsed = parse_ip(address or _LOCAL)
    plain = str(parsed or address)
    node = f'"[{plain}]"' if parsed is not None and parsed.version == 6 else plain
    values = {
        "x-forwarded-for": plain,
        "x-forwarded-proto": scheme,
        "forwarded": f"for={node};proto={scheme}",
        "x-svc-client": plain,
    }
    return tuple((name.encode(), value.encode()) for name, value in values.items())


def behind_proxies(handler: Handler, trusted: tuple[Network, ...]) -> Handler:
    """Return a handler that takes client and scheme of a request from the fields of trusted proxies."""
    if not trusted:
        return handler

    def handle(exchange: Exchange) -> Awaitable[None]:
        request = exchange.request
        if request.client is not None and _is_trusted(request.client[0], trusted):
            _believe(request, trusted)
        return handler(exchange)

    return handle


def _believe(request: Request, trusted: tuple[Network, ...]) -> None:
    """Set client and scheme: those of the rightmost address outside of `trusted`.

    `Forwarded` counts only without `X-Forwarded-For` and `X-Forwarded-Proto`: a proxy sets one kind, and
    passes the other as its client sent it.
    """
    hops = [*_values(request.headers, b"x-forwarded-for")]
    schemes = [*_values(request.headers, b"x-forwarded-proto")]
    if not hops and not schemes:
        members = [_pairs(each) for each in _values(request.headers, b"forwarded")]
        hops = [each.get("for", "") for each in members]
        schemes = [each["proto"] for each in members if "proto" in each]
    for hop in reversed(hops):
        match = _PORT.fullmatch(hop)
        parsed = parse_ip(match[1] or match[2] or match[3] or "") if match else None
        if parsed is None:
            break
        request.client = (str(parsed), 0)
        if not _is_trusted(request.client[0], trusted):
            break
    if schemes and schemes[-1].lower() in ("http", "https"):
        request.scheme = schemes[-1].lower()


def _pairs(member: str) -> dict[str, str]:
    """Return the pairs of a member of `Forwarded`, none if one is malformed: a client may open a quote."""
    pairs = [_PAIR.fullmatch(each) for each in member.split(";")]
    return {each[1].lower(): each[2].strip('"') for each in pairs if each} if all(pairs) else {}


def _values(headers: Headers, name: bytes) -> Iterator[str]:
    """Yield the members of a list field, in order over all its lines."""
    for key, value in headers:
        if key == name:
            yield from (member.strip() for member in value.decode("latin-1").split(",") if member.strip())


def _is_trusted(address: str, trusted: tuple[Network, ...]) -> bool:
    parsed = parse_ip(address)
    return parsed is not None and any(parsed in network for network in trusted)
