"""A server on a thread that hosted and native programs call."""

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOGETHER = 5


class Peer(ThreadingHTTPServer):
    """Echoes requests, except on a few paths. `seen` has heads and bodies."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, list[tuple[str, str]], bytes]] = []
        self.all_there = threading.Barrier(TOGETHER, timeout=20)
        self.over = threading.Event()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Peer

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        setattr(self, f"do_{self.command}", self._answer)
        return parsed

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _answer(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        self.server.seen.append((self.command, self.path, self.headers.items(), body))
        if path == "/together":
            self.server.all_there.wait()
        elif path == "/late":
            time.sleep(0.2)
        elif path == "/never":
            self.server.over.wait(30)
            self.close_connection = True
            return
        elif path == "/elsewhere":
            self._head(302, 0, ("location", "/landed"))
            return
        elif path == "/half":
            self._head(200, 100)
            self.wfile.write(b"half")
            self.server.over.wait(30)
            self.close_connection = True
            return
        elif path == "/cut":
            self._head(200, 100)
            self.wfile.write(b"cut off")
            self.close_connection = True
            return
        elif path == "/gzip":
            packed = gzip.compress(b"large" * 10_000)
            self._head(200, len(packed), ("content-encoding", "gzip"))
            self.wfile.write(packed)
            return
        elif path == "/large":
            self._head(200, 1 << 20)
            self.wfile.write(b"large" + bytes((1 << 20) - 5))
            return
        answer = f"{self.command} {self.path} ".encode() + body
        self._head(200, len(answer), ("x-kind", "peer"))
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _head(self, status: int, length: int, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-length", str(length))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size + 2)[:-2]
        self.rfile.readline()
        return body


@contextmanager
def peer() -> Iterator[Peer]:
    """Run a peer."""
    with Peer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
