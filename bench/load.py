"""A load generator in its own process: `python -m bench.load PORT PATH SECONDS CONNECTIONS [RATE]`.

PATH may begin with the name of a host; several, separated by commas, are requested in turn. If the first
begins with `https://`, all connections use TLS, and believe every certificate. Keep-alive HTTP/1.1 over
sockets and one epoll, so that it costs the machine little. Without RATE it sends as fast
as responses arrive, otherwise RATE requests a second in all. SIGTERM ends it early. Prints a JSON document:
requests, failed (another status than 200, or no response) and seconds.
"""

import json
import select
import signal
import socket
import ssl
import sys
import time
from itertools import cycle
from typing import Any

PIECE = 256 << 10
LISTEN_SECONDS = 0.1
"""Maximum delay in handling SIGTERM."""
_TLS = ssl.create_default_context()
_TLS.check_hostname, _TLS.verify_mode = False, ssl.CERT_NONE


class Client:
    """One connection that sends a request after each complete response."""

    __slots__ = ("asked", "buffer", "socket")

    def __init__(self, port: int, tls_host: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls_host:
            self.socket = _TLS.wrap_socket(self.socket, server_hostname=tls_host)
        self.buffer = b""
        self.asked = 0.0

    def answered(self) -> int:
        """Read available bytes. Return the status of a complete response, 0 for a partial one, -1 at EOF."""
        try:
            data = self.socket.recv(PIECE)
            while isinstance(self.socket, ssl.SSLSocket) and (size := self.socket.pending()):
                data += self.socket.recv(size)
        except ConnectionError:
            data = b""
        if not data:
            return -1
        self.buffer += data
        at = self.buffer.find(b"\r\n\r\n")
        if at < 0:
            return 0
        head = self.buffer[:at].lower()
        named = head.find(b"content-length:")
        if named < 0:
            return -1
        if len(self.buffer) < at + 4 + int(head[named + 15 :].split(b"\r\n", 1)[0]):
            return 0
        self.buffer = b""
        return int(head[9:12])


def _request(path: str, port: int) -> bytes:
    host, _, rest = path.partition("/")
    return f"GET /{rest} HTTP/1.1\r\nhost: {host or f'localhost:{port}'}\r\naccept: */*\r\n\r\n".encode()


class Load:
    """All connections of one server."""

    def __init__(self, port: int, path: str, connections: int, rate: float) -> None:
        secure = path.startswith("https://")
        path = path.removeprefix("https://")
        self._asking = cycle([_request(each, port) for each in path.split(",")])
        host = path.partition("/")[0] if secure else ""
        self._interval = connections / rate if rate else 0.0
        self._poller = select.epoll()
        self._clients = {
            client.socket.fileno(): client for client in (Client(port, host) for _ in range(connections))
        }
        for number in self._clients:
            self._poller.register(number, select.EPOLLIN)
        self._waiting: set[Client] = set()
        self._due: list[tuple[float, Client]] = []
        self._requests = self._failed = 0
        self._stopped = False

    def stop(self, *_: Any) -> None:
        """End the load early."""
        self._stopped = True

    def run(self, seconds: float) -> dict[str, Any]:
        """Load the server and return the figures. Responses in flight at the end do not count."""
        self._requests = self._failed = 0
        began = now = time.perf_counter()
        for client in self._clients.values():
            self._ask(client, now)
        while now < began + seconds and not self._stopped:
            wait = min([began + seconds, now + LISTEN_SECONDS, *(due for due, _ in self._due)]) - now
            for number, _event in self._poller.poll(max(wait, 0.0)):
                if answered := self._on_data(number):
                    self._schedule(answered)
            now = time.perf_counter()
            for client in [client for due, client in self._due if due <= now]:
                self._ask(client, now)
            self._due = [entry for entry in self._due if entry[0] > now]
        elapsed = time.perf_counter() - began
        return {"requests": self._requests, "failed": self._failed, "seconds": elapsed}

    def settle(self) -> int:
        """Wait for the outstanding responses, so that `run` may be called again; return their number."""
        before = self._requests
        while self._waiting:
            for number, _event in self._poller.poll():
                self._on_data(number)
        return self._requests - before

    def _ask(self, client: Client, now: float) -> None:
        client.asked = now
        self._waiting.add(client)
        try:
            client.socket.sendall(next(self._asking))
        except ConnectionError:
            self._lose(client)

    def _on_data(self, number: int) -> Client | None:
        """Read from a connection; return it once the response is complete."""
        client = self._clients[number]
        status = client.answered()
        if not status:
            return None
        if status < 0:
            self._lose(client)
            return None
        self._waiting.discard(client)
        self._requests += 1
        self._failed += status != 200
        return client

    def _schedule(self, client: Client) -> None:
        if self._interval:
            self._due.append((client.asked + self._interval, client))
        else:
            self._ask(client, 0.0)

    def _lose(self, client: Client) -> None:
        self._failed += 1
        self._waiting.discard(client)
        self._poller.unregister(client.socket)
        client.socket.close()


def main() -> None:
    port, path, seconds, connections, *rate = sys.argv[1:]
    load = Load(int(port), path, int(connections), float(rate[0]) if rate else 0.0)
    signal.signal(signal.SIGTERM, load.stop)
    print(json.dumps(load.run(float(seconds))))


if __name__ == "__main__":
    main()
