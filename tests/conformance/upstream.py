"""A server for guests' requests; the request path selects its behavior.

It speaks HTTP/1.1 over a socket by hand, so that it can also violate the protocol.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

ANSWERS = {
    "/headers": b"HTTP/1.1 404 Not Found\r\nX: 1\r\nY: a\r\nx: 2\r\nConnection: keep-alive\r\n"
    b"Content-Length: 0\r\n\r\n",
    "/half": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    "/garbage": b"nonsense\r\n\r\n",
    "/trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n"
    b"4\r\nbody\r\n0\r\nx: 1\r\n\r\n",
    "/redirect": b"HTTP/1.1 302 Found\r\nLocation: /headers\r\nContent-Length: 0\r\n\r\n",
    "/nothing": b"",
}


@dataclass
class Upstream:
    """`requests` are heads and bodies as received. `arrived` is set on a request, `closed` on a
    disconnect. Setting `given_up` ends pending waits.
    """

    authority: str = ""
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                target = head.split(" ")[1]
                path = target.partition("?")[0]
                if path == "/refuse":
                    writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
                    return
                if path == "/deaf":
                    await self.given_up.wait()
                    return
                if path == "/early":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
                body = await _body(head.lower(), reader)
                self.requests.append((head, body))
                self.arrived.set()
                if path == "/echo":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                elif path != "/early":
                    writer.write(ANSWERS.get(path, b""))
                await writer.drain()
                if path in ("/hang", "/stall"):
                    await reader.read()
                    return
                if path == "/reset":
                    lingering = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
                    return
                if "cut" in target or path == "/nothing" or path == "/garbage":
                    return
                if path == "/half":
                    await reader.read()
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _body(head: str, reader: asyncio.StreamReader) -> bytes:
    if "transfer-encoding: chunked" in head:
        result = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            result += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return result
    _, declared, rest = head.partition("content-length: ")
    return await reader.readexactly(int(rest.partition("\r\n")[0])) if declared else b""


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """Serve on a port of the loopback interface."""
    state = Upstream()
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, backlog=1024)
    state.authority = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield state
    state.given_up.set()
    for connection in state.connections:
        connection.cancel()
    await asyncio.gather(*state.connections, return_exceptions=True)
