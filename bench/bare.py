"""The roof: Hypercorn 0.18 with an application that always answers the same. Prints its port.

`python -m bench.bare [CERTIFICATE KEY]`: with files of a certificate, it serves https.
"""

import asyncio
import socket
import sys
from typing import Any

from hypercorn.asyncio.run import worker_serve
from hypercorn.config import Config, Sockets
from hypercorn.utils import wrap_app

BODY = b"hello\n"
HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"6")]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request alike."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


async def lifespan(receive: Any, send: Any) -> None:
    """Acknowledge lifespan events until shutdown."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


def serve(app: Any) -> None:
    """Serve an application on a free port, and print which."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    listening.setblocking(False)
    print(listening.getsockname()[1], flush=True)
    config = Config()
    config.accesslog = None
    config.keep_alive_max_requests = 1 << 62
    sockets = Sockets([], [listening], [])
    if len(sys.argv) == 3:
        config.certfile, config.keyfile = sys.argv[1:]
        sockets = Sockets([listening], [], [])
    asyncio.run(
        worker_serve(wrap_app(app, 0, "asgi"), config, sockets=sockets, shutdown_trigger=asyncio.Event().wait)
    )


if __name__ == "__main__":
    serve(app)
