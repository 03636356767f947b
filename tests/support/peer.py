"""A server on a thread that guests and native programs call."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import brotli  # type: ignore[import-untyped]

TOGETHER = 5
COMPRESSED = "compressed " * 5000
_BROTLI = brotli.compress(COMPRESSED.encode())
_ENCODED = {
    "/gzip": ("gzip", gzip.compress(COMPRESSED.encode())),
    "/br": ("br", _BROTLI),
    "/br-cut": ("br", _BROTLI[:-3]),
    "/zstd": ("zstd", b"unknown"),
}
_REDIRECTS = {"/elsewhere": "/landed", "/loop": "/loop"}


class ReceivedRequest(NamedTuple):
    """A received request."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    body: bytes


def as_text(seen: ReceivedRequest) -> bytes:
    """Return the first line of a request and its body."""
    return f"{seen.method} {seen.target} ".encode() + seen.body


def as_json(seen: ReceivedRequest) -> bytes:
    """Return method, target, header fields by lower-case name, and body."""
    fields = {name.lower(): value for name, value in seen.fields}
    return json.dumps([seen.method, seen.target, fields, seen.body.decode()]).encode()


class Peer(ThreadingHTTPServer):
    """Answers with the request in the form of `show`, except on a few paths. `requests` has them."""

    daemon_threads = True

    def __init__(self, show: Callable[[ReceivedRequest], bytes] = as_text) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.show = show
        self.requests: list[ReceivedRequest] = []
        self.all_there = threading.Barrier(TOGETHER, timeout=60)
        self.released = threading.Event()

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
        if self.path == "/echo":
            self._echo()
            return
        seen = ReceivedRequest(self.command, self.path, self.headers.items(), self._body())
        path = urlsplit(self.path).path
        self.server.requests.append(seen)
        if path == "/together":
            self.server.all_there.wait()
        elif path == "/late":
            time.sleep(0.2)
        elif path == "/never":
            self.server.released.wait(60)
            self.close_connection = True
            return
        elif path in _REDIRECTS:
            self._redirect(302, _REDIRECTS[path])
            return
        elif path == "/redirect":
            query = parse_qs(urlsplit(self.path).query)
            self._redirect(int(query["status"][0]), query["to"][0])
            return
        elif path == "/half":
            self._head(200, 100)
            self.wfile.write(b"half")
            self.server.released.wait(60)
            self.close_connection = True
            return
        elif path == "/cut":
            self._head(200, 100)
            self.wfile.write(b"cut off")
            self.close_connection = True
            return
        elif path in _ENCODED:
            coding, packed = _ENCODED[path]
            self._head(200, len(packed), ("content-encoding", coding))
            self.wfile.write(packed)
            return
        elif path == "/large":
            self._head(200, 1 << 20)
            self.wfile.write(b"large" + bytes((1 << 20) - 5))
            return
        answer = self.server.show(seen)
        self._head(200, len(answer), ("x-kind", "peer"))
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _echo(self) -> None:
        """Respond before the body arrives, and return each of its chunks at once."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        size = 1
        while size:
            line = self.rfile.readline()
            size = int(line, 16)
            self.wfile.write(line + self.rfile.read(size + 2))

    def _redirect(self, status: int, location: str) -> None:
        self._head(status, 5, ("location", location))
        if self.command != "HEAD":
            self.wfile.write(b"moved")

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
def peer(show: Callable[[ReceivedRequest], bytes] = as_text) -> Iterator[Peer]:
    """Run a peer."""
    with Peer(show) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
