"""Adapter that runs an ASGI application, as the control API is one, as a handler of exchanges."""

import asyncio
from typing import Any
from urllib.parse import unquote

from engine.eager import in_task
from engine.http.exchange import BodyInterrupted, Exchange, Handler, Request


def asgi_handler(app: Any) -> Handler:
    """Return a handler that runs an ASGI 3.0 application. Its lifespan is not run."""

    async def handle(exchange: Exchange) -> None:
        await in_task()
        ended = asyncio.Event()
        exchange.disconnected.add_callback(ended.set)
        try:
            await app(_scope(exchange.request), *_channels(exchange, ended))
        finally:
            exchange.disconnected.remove_callback(ended.set)

    return handle


def _scope(request: Request) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": request.http_version,
        "asgi": {"spec_version": "2.1", "version": "3.0"},
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "root_path": "",
        "headers": request.headers,
        "client": request.client,
        "server": request.server,
        "state": {},
        "extensions": {},
    }


def _channels(exchange: Exchange, ended: asyncio.Event) -> tuple[Any, Any]:
    """Return ASGI's `receive` and `send`. `ended` is set at the end of the response, or at a disconnect."""
    body_read = False

    async def receive() -> dict[str, Any]:
        nonlocal body_read
        if not body_read:
            try:
                data = await exchange.body.read()
            except BodyInterrupted:
                return {"type": "http.disconnect"}
            body_read = exchange.body.exhausted
            return {"type": "http.request", "body": data, "more_body": not body_read}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await exchange.send_head(message["status"], message["headers"])
        else:
            more = message.get("more_body", False)
            await exchange.send_body(message.get("body", b""), end=not more)
            if not more:
                ended.set()

    return receive, send
