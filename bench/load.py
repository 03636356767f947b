"""A load generator in a process of its own: `python -m bench.load PORT PATH SECONDS CONNECTIONS [RATE]`.

Keep-alive HTTP/1.1 over raw asyncio protocols, so that it costs the machine little. Without RATE it sends
as fast as answers come, with it that many requests a second in all. SIGTERM ends it early. Prints one JSON
document: requests, failed (another status than 200, or no answer) and seconds.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time
from typing import Any


class Counter:
    """What all connections add up to."""

    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0


class Client(asyncio.Protocol):
    """One connection that asks, waits for the whole answer, and asks again."""

    def __init__(self, counter: Counter, request: bytes, interval: float) -> None:
        self._counter = counter
        self._request = request
        self._interval = interval
        self._buffer = b""
        self._transport: Any = None
        self._asked = 0.0
        self.stopped = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        if not self.stopped:
            self._asked = time.perf_counter()
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        at = head.lower().find(b"content-length:")
        if at < 0:
            self._counter.failed += 1
            self._transport.close()
            return
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._counter.requests += 1
        if not head.startswith(b"HTTP/1.1 200"):
            self._counter.failed += 1
        wait = self._asked + self._interval - time.perf_counter() if self._interval else 0.0
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._ask)
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopped:
            self._counter.failed += 1


async def load(port: int, path: str, seconds: float, connections: int, rate: float) -> dict[str, Any]:
    """Load a server on this machine; return what came of it."""
    counter = Counter()
    request = f"GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\naccept: */*\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    interval = connections / rate if rate else 0.0
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    began = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda: Client(counter, request, interval), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    took = time.perf_counter() - began
    for client in clients:
        client.stopped = True
        client._transport.close()
    return {"requests": counter.requests, "failed": counter.failed, "seconds": took}


def main() -> None:
    port, path, seconds, connections, *rate = sys.argv[1:]
    result = load(int(port), path, float(seconds), int(connections), float(rate[0]) if rate else 0.0)
    print(json.dumps(asyncio.run(result)))


if __name__ == "__main__":
    main()
