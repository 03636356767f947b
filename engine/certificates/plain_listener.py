"""The plain HTTP listener of a service with ACME: answers challenges and redirects all else to https."""

import re
from collections.abc import Awaitable, Callable

from engine.eager import in_task
from engine.gateway.routes import host_name
from engine.http.exchange import Exchange, Handler

CHALLENGE_PATH = "/.well-known/acme-challenge/"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
FindText = Callable[[str, str], Awaitable[str | None]]
"""Takes a token and a host name; returns the text of an HTTP-01 challenge, or `None`."""


def challenges_and_redirects(find: FindText, domain: str, url_of: Callable[[str], str]) -> Handler:
    """Return the handler. `url_of` returns the https URL of a host name, without a path.

    Requests without a valid host are redirected to `domain`.
    """

    async def handle(exchange: Exchange) -> None:
        request = exchange.request
        host = next((value for name, value in request.headers if name == b"host"), b"").decode("latin-1")
        name = host_name(host)
        if request.path.startswith(CHALLENGE_PATH):
            await in_task()
            token = request.path.removeprefix(CHALLENGE_PATH)
            text = await find(token, name) if _TOKEN.fullmatch(token) else None
            kind, body = (b"text/plain", text.encode()) if text else (b"text/plain", b"not found\n")
            length = (b"content-length", str(len(body)).encode())
            await exchange.send_head(200 if text else 404, [(b"content-type", kind), length])
            await exchange.send_body(b"" if request.method == "HEAD" else body, end=True)
            return
        target = url_of(f"[{name}]" if ":" in name else name or domain) + (
            request.path if request.path[:1] == "/" else "/"
        )
        location = target.encode() + (b"?" + request.query if request.query else b"")
        await exchange.send_head(308, [(b"location", location), (b"content-length", b"0")])
        await exchange.send_body(b"", end=True)

    return handle
