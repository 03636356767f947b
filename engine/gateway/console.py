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


def below_root(console: Handler, others: Handler) -> Handler:
    """Return a handler that passes requests for the Console to `console`, and all others to `others`."""

    def handle(exchange: Exchange) -> Awaitable[None]:
        path = exchange.request.path
        return (console if path.startswith(ROOT) or path == ROOT[:-1] else others)(exchange)

    return handle


def at_domain(console: Handler, gateway: Handler, domain: str, scheme: str) -> Handler:
    """Return a handler like that of `below_root`, for requests whose host is the domain itself.

    `scheme` is that of a TLS-terminating proxy, or empty.
    """

    def handle(exchange: Exchange) -> Awaitable[None]:
        request = exchange.request
        host = next((value for name, value in request.headers if name == b"host"), b"")
        if host_name(host.decode("latin-1")) != domain:
            return gateway(exchange)
        request.scheme = scheme or request.scheme
        return console(exchange)

    return below_root(handle, gateway)


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
        origin = json.dumps([secret, request.scheme, *(request.client or ("", 0))]).encode()
        url = f"http://{address}{request.path}" + (f"?{request.query.decode()}" if request.query else "")
        headers = [*_end_to_end(request.headers), (_ORIGIN, origin)]

        def cancel() -> None:
            task.cancel()

        exchange.disconnected.add_callback(cancel)
        try:
            content = None if exchange.body.exhausted else body(exchange)
            async with pool.stream(request.method, url, headers=headers, content=content) as response:
                await exchange.send_head(response.status, _end_to_end(response.headers))
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
        origin = next((value for name, value in request.headers if name == _ORIGIN), b'[""]')
        received, *client = json.loads(origin)
        if not hmac.compare_digest(received, secret):
            exchange.abort()
            return
        request.scheme, *address = client
        request.client = (address[0], address[1])
        await console(exchange)

    return receive


def _end_to_end(headers: Headers) -> Headers:
    return [field for field in headers if field[0].lower() not in HOP_BY_HOP]
