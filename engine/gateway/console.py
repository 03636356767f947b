"""The Console of a service at its own domain: requests for it leave the gateway here, also in a worker."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable

from engine.eager import in_task
from engine.gateway.routes import host_name
from engine.gateway.traced_exchange import HOP_BY_HOP
from engine.http.exchange import Exchange, Handler, Headers

ROOT = "/console/"
_ORIGIN = b"x-svc-origin"
"""Header field of forwarded requests: secret, scheme and address of the client."""
_NOT_FORWARDED = HOP_BY_HOP | {_ORIGIN}


def below_root(console: Handler, others: Handler, scheme: str = "") -> Handler:
    """Return a handler that passes requests for the Console to `console`, and all others to `others`.

    `scheme` is that of a TLS-terminating proxy, or empty.
    """

    def handle(exchange: Exchange) -> Awaitable[None]:
        request = exchange.request
        if not request.path.startswith(ROOT) and request.path != ROOT[:-1]:
            return others(exchange)
        request.scheme = scheme or request.scheme
        return console(exchange)

    return handle


def at_domain(console: Handler, gateway: Handler, domain: str, scheme: str) -> Handler:
    """Return a handler like that of `below_root`, for requests whose host is the domain itself."""
    hosted = below_root(console, gateway, scheme)

    def handle(exchange: Exchange) -> Awaitable[None]:
        if not exchange.request.path.startswith(ROOT[:-1]):
            return gateway(exchange)
        host = dict(exchange.request.headers).get(b"host", b"")
        return (hosted if host_name(host.decode("latin-1")) == domain else gateway)(exchange)

    return handle


def forwarder(address: str, secret: str) -> Handler:
    """Return a handler that forwards requests to the `receiver` with this secret at a `host:port`."""
    import httpcore  # Most workers never forward a request.

    pool = httpcore.AsyncConnectionPool(max_connections=None)

    async def body(exchange: Exchange) -> AsyncIterator[bytes]:
        while part := await exchange.body.read():
            yield part

    async def forward(exchange: Exchange) -> None:
        await in_task()
        request, task = exchange.request, asyncio.current_task()
        assert task is not None
        client = json.dumps([request.scheme, *(request.client or ("", 0))[:2]])
        origin = f"{secret} {client}".encode()
        url = f"http://{address}{request.path}" + (f"?{request.query.decode()}" if request.query else "")
        headers = [(_ORIGIN, origin), *_end_to_end(request.headers)]

        def cancel() -> None:
            task.cancel()

        exchange.disconnected.add_callback(cancel)
        try:
            content = None if exchange.body.exhausted else body(exchange)
            async with pool.stream(request.method, url, headers=headers, content=content) as response:
                answered = [field for field in _end_to_end(response.headers) if field[0].lower() != b"date"]
                await exchange.send_head(response.status, answered)
                async for part in response.aiter_stream():
                    await exchange.send_body(part, end=False)
                await exchange.send_body(b"", end=True)
        finally:
            exchange.disconnected.remove_callback(cancel)

    return forward


def receiver(console: Handler, secret: str) -> Handler:
    """Return a handler for requests of `forwarder`."""

    async def receive(exchange: Exchange) -> None:
        request = exchange.request
        origin = next((value for name, value in request.headers if name == _ORIGIN), b"")
        received, _, client = origin.partition(b" ")
        if not hmac.compare_digest(received, secret.encode()):
            exchange.abort()
            return
        request.scheme, address, port = json.loads(client)
        request.client = (address, port)
        await console(exchange)

    return receive


def _end_to_end(headers: Headers) -> Headers:
    return [field for field in headers if field[0].lower() not in _NOT_FORWARDED]
