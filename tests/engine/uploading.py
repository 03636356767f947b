"""A server and clients that send it bodies of a known length."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from engine.http.asgi import asgi_handler
from engine.http.exchange import Exchange, Handler
from engine.http.server import serve
from engine.http.sockets import bind

App = Callable[[Any, Any, Any], Awaitable[None]]
HOST = b"host: x\r\n"
PATIENCE = 60.0
MIB = 1 << 20


@contextlib.asynccontextmanager
async def served(app: App, *, grace: float = 0.2) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Serve an application; yield the port and the function that stops it."""
    async with handled(asgi_handler(app), grace=grace) as served:
        yield served


@contextlib.asynccontextmanager
async def handled(handler: Handler, *, grace: float = 0.2) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Serve a handler of exchanges; yield the port and the function that stops it."""
    sockets, stop = bind("127.0.0.1", 0), asyncio.Event()
    server = asyncio.create_task(serve(handler, sockets, stop=stop, grace=grace))
    try:
        yield sockets[0].getsockname()[1], stop
    finally:
        stop.set()
        await server


def upload(size: int, path: bytes = b"/", *fields: bytes) -> bytes:
    """Return the head of a request with a body of `size` bytes."""
    length = b"content-length: %d" % size
    return b"POST %b HTTP/1.1\r\n%b%b\r\n\r\n" % (path, HOST, b"\r\n".join([length, *fields]))


async def respond(exchange: Exchange, text: bytes) -> None:
    """Respond to an exchange with a text."""
    await exchange.send_head(200, [(b"content-length", b"%d" % len(text))])
    await exchange.send_body(text, end=True)


async def answer(send: Any, text: bytes, *fields: tuple[bytes, bytes]) -> None:
    length = (b"content-length", b"%d" % len(text))
    await send({"type": "http.response.start", "status": 200, "headers": [length, *fields]})
    await send({"type": "http.response.body", "body": text, "more_body": False})


async def read_body(receive: Any) -> bytes:
    """Return the body of a request."""
    data = b""
    while (message := await receive())["type"] == "http.request":
        data += message["body"]
        if not message["more_body"]:
            break
    return data


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Respond with method, target and body."""
    data = await read_body(receive)
    await answer(send, b"%b %b [%b]" % (scope["method"].encode(), scope["raw_path"], data))


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read one response: its head and its body."""
    async with asyncio.timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
        return head, await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r")[0]))


async def converse(port: int, parts: list[bytes]) -> bytes:
    """Send parts, one per turn of the loop, then EOF; return all received bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0)
            writer.write_eof()
            return await asyncio.wait_for(reader.read(), PATIENCE)
        return b""
    finally:
        writer.transport.abort()


"""Requests one behind the other: of each the method and the size of its body."""
