"""The client address that guests receive, direct and through proxies."""

import asyncio
from ipaddress import ip_network

import pytest

from engine.gateway.client_address import behind_proxies, client_fields
from engine.http.exchange import Exchange, MemoryExchange, Request
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, Site, reply
from tests.engine.gateway.test_gateway import with_api

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
XFF, PROTO, FORWARDED = b"x-forwarded-for", b"x-forwarded-proto", b"forwarded"


def test_guest_gets_the_address_of_its_client_and_nothing_that_the_client_sent_as_such() -> None:
    async def body(request: GuestRequest) -> RunReport:
        fields = [name + b": " + value for name, value in request.headers if name != b"traceparent"]
        return await reply(request, b"\n".join(fields))

    async def test(site: Site) -> None:
        spoofed = [
            ("X-Forwarded-For", "9.9.9.9"),
            ("X-Forwarded-Proto", "gopher"),
            ("Forwarded", "for=9.9.9.9"),
            ("X-Svc-Client", "9.9.9.9"),
            ("x-svc-user", "root"),
            ("X-SVC-", "x"),
            ("x-svc", "passes"),
        ]
        request = "".join(f"{name}: {value}\r\n" for name, value in spoofed)
        head = f"GET / HTTP/1.1\r\nHost: api--shop.localhost\r\n{request}Connection: close\r\n\r\n"
        answer = (await site.raw(head.encode())).decode().partition("\r\n\r\n")[2]
        assert answer.splitlines() == [
            "host: api--shop.localhost",
            "x-svc: passes",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-proto: http",
            "forwarded: for=127.0.0.1;proto=http",
            "x-svc-client: 127.0.0.1",
        ]

    with_api(Scripted(body), test)


def test_ipv6_addresses_are_quoted_where_the_field_needs_it() -> None:
    fields = dict(client_fields("2001:db8::1", "https"))
    assert fields[FORWARDED] == b'for="[2001:db8::1]";proto=https'
    assert fields[XFF] == fields[b"x-svc-client"] == b"2001:db8::1"
    assert dict(client_fields("::ffff:192.0.2.1", "http"))[XFF] == b"192.0.2.1"
    assert dict(client_fields(None, "http"))[XFF] == b"127.0.0.1"


def _seen(peer: str | None, *headers: tuple[bytes, bytes]) -> tuple[str | None, str]:
    seen: list[Request] = []

    async def handler(exchange: Exchange) -> None:
        seen.append(exchange.request)

    request = Request(
        method="GET",
        scheme="http",
        path="/",
        query=b"",
        headers=list(headers),
        client=None if peer is None else (peer, 5),
    )
    asyncio.run(behind_proxies(handler, TRUSTED)(MemoryExchange(request)))  # type: ignore[arg-type]
    return (seen[0].client[0] if seen[0].client else None), seen[0].scheme


@pytest.mark.parametrize(
    ("peer", "headers", "client", "scheme"),
    [
        ("192.0.2.7", [(XFF, b"9.9.9.9"), (PROTO, b"https")], "192.0.2.7", "http"),
        ("10.0.0.1", [(XFF, b"9.9.9.9, 192.0.2.1"), (PROTO, b"https")], "192.0.2.1", "https"),
        ("10.0.0.1", [(XFF, b"9.9.9.9"), (XFF, b"192.0.2.1, 10.1.1.1")], "192.0.2.1", "http"),
        ("10.0.0.1", [(XFF, b"10.2.2.2, 10.1.1.1")], "10.2.2.2", "http"),
        ("10.0.0.1", [(XFF, b"9.9.9.9, nonsense, 10.1.1.1")], "10.1.1.1", "http"),
        ("10.0.0.1", [(XFF, b"192.0.2.1:4711")], "192.0.2.1", "http"),
        ("fd00::1", [(XFF, b"[2001:db8::9]:443")], "2001:db8::9", "http"),
        ("fd00::1", [(XFF, b"2001:db8::9")], "2001:db8::9", "http"),
        ("::ffff:10.0.0.1", [(XFF, b"192.0.2.1")], "192.0.2.1", "http"),
        (
            "10.0.0.1",
            [(FORWARDED, b'for=9.9.9.9, for="[2001:db8::9]:80";proto=HTTPS')],
            "2001:db8::9",
            "https",
        ),
        ("10.0.0.1", [(XFF, b"192.0.2.1"), (FORWARDED, b"for=9.9.9.9;proto=https")], "192.0.2.1", "http"),
        ("10.0.0.1", [(FORWARDED, b"for=_hidden")], "10.0.0.1", "http"),
        (
            "10.0.0.1",
            [(FORWARDED, b'for="6.6.6.6%'), (FORWARDED, b'for="[2001:db8::1]";proto=https')],
            "2001:db8::1",
            "https",
        ),
        ("10.0.0.1", [(FORWARDED, b'for="6.6.6.6%, for=9.9.9.9;host="a:443"')], "9.9.9.9", "http"),
        ("10.0.0.1", [(FORWARDED, b'for=6.6.6.6, for="9.9.9.9%1"')], "10.0.0.1", "http"),
        ("10.0.0.1", [(PROTO, b"gopher")], "10.0.0.1", "http"),
        ("10.0.0.1", [], "10.0.0.1", "http"),
        (None, [(XFF, b"9.9.9.9")], None, "http"),
    ],
)
def test_rightmost_address_that_is_no_trusted_proxy_is_the_client(
    peer: str | None, headers: list[tuple[bytes, bytes]], client: str | None, scheme: str
) -> None:
    assert _seen(peer, *headers) == (client, scheme)
