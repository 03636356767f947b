"""Guests that send outgoing requests: building requests, taking responses, and running guest and server."""

from typing import Any

from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Host
from tests.conformance.upstream import Upstream, upstream

MOST = (1 << 64) - 1
MILLISECOND = 1_000_000


def new_request(
    guest: Guest, authority: str, path: str, *fields: tuple[str, bytes], method: Any = "get"
) -> Step:
    """Build a request to a server."""
    request = guest.call("outgoing-request.constructor", guest.call("fields.from-list", list(fields)))
    guest.call("outgoing-request.set-method", request, method)
    guest.call("outgoing-request.set-scheme", request, "HTTP")
    guest.call("outgoing-request.set-authority", request, authority)
    guest.call("outgoing-request.set-path-with-query", request, path)
    return request


def take_response(guest: Guest, future: Step) -> Step:
    """Wait for the response and take it."""
    pollable = guest.call("future-incoming-response.subscribe", future)
    guest.call("pollable.block", pollable)
    guest.drop(pollable)
    return guest.call("future-incoming-response.get", future)


def call(host: Host, guest: Guest, **fields: Any) -> tuple[Answer, Upstream]:
    """Run a guest whose `egress` allows requests to `SERVER`."""

    async def run() -> tuple[Answer, Upstream]:
        async with upstream() as server:
            fields.setdefault("egress", (f"http://{server.authority}",))
            set_authority_placeholder(guest, server.authority)
            return await host.ask(guest, **fields), server

    return host.wait(run())


SERVER = "127.0.0.1:00000"
"""Placeholder of the same length as the server's authority, until its port is known."""


def set_authority_placeholder(guest: Guest, authority: str) -> None:
    """Replace `SERVER` by the server's authority."""
    encoded = authority.encode().ljust(len(SERVER), b" ")
    assert len(authority) == len(SERVER), "a port of five digits"
    guest.static.data = [(at, c.replace(SERVER.encode(), encoded)) for at, c in guest.static.data]
