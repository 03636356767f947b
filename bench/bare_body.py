"""The roof of `bench-body`: Hypercorn 0.18 alone, with an application that sends and takes the same bytes."""

from typing import Any

from bench.bare import lifespan, serve
from bench.payload import BLOCK_SIZE, block

BLOCK = block()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer GET `/<size>` with `size` bytes, POST with the number of received bytes."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    if scope["method"] == "GET":
        size = int(scope["path"].removeprefix("/"))
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(size // BLOCK_SIZE):
            await send({"type": "http.response.body", "body": BLOCK, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    count, more = 0, True
    while more:
        message = await receive()
        count += len(message.get("body", b""))
        more = message.get("more_body", False)
    text = b"%d\n" % count
    headers = [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


if __name__ == "__main__":
    serve(app)
