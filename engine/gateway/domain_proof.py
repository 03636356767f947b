"""The proof that a name's DNS points to this service: answers that only this service can compute.

A service asks a name for the answer to a random token. The answer is a keyed hash of both, so another server
cannot know it, and the DNS of the name, or a proxy that it names, leads to this service. The control of the
DNS is what shows that a name belongs to a project; a certificate authority accepts the same (HTTP-01).
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable

from engine.gateway.routes import host_name
from engine.http.exchange import Exchange, Handler

PATH = "/.well-known/svc-domain/"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")


def answer(key: bytes, name: str, token: str) -> str:
    """Return what the service answers at a name to a token."""
    return hmac.new(key, f"{name}/{token}".encode(), hashlib.sha256).hexdigest()


def with_proof(others: Handler, key: bytes) -> Handler:
    """Return a handler that answers tokens below `PATH` at any host, and passes other requests on."""

    async def prove(exchange: Exchange) -> None:
        host = next((value for name, value in exchange.request.headers if name == b"host"), b"")
        text = answer(key, host_name(host.decode("latin-1")), exchange.request.path.removeprefix(PATH))
        length = (b"content-length", str(len(text)).encode())
        await exchange.send_head(200, [(b"content-type", b"text/plain"), length])
        await exchange.send_body(text.encode(), end=True)

    def handle(exchange: Exchange) -> Awaitable[None]:
        path = exchange.request.path
        proof = path.startswith(PATH) and _TOKEN.fullmatch(path, len(PATH))
        return (prove if proof else others)(exchange)

    return handle
