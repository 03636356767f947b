"""A receiver of alerts: a server that stores what it gets, and answers with a status or not at all."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TestWebhook(ThreadingHTTPServer):
    """`status` is that of the answers, 0 for none until the end, -1 for a head that never ends."""

    __test__ = False
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = f"http://127.0.0.1:{self.server_address[1]}"
        self.url = f"{self.name}/secret-path"
        self.status = 200
        self.alerts: list[dict[str, Any]] = []
        self.requests = 0
        self.ended = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None: ...


class _Handler(BaseHTTPRequestHandler):
    server: TestWebhook

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests += 1
        if self.server.status == 200:
            self.server.alerts.append(document)
        if self.server.status == 0:
            self.server.ended.wait()
            return
        while self.server.status < 0 and not self.server.ended.wait(0.02):
            self.wfile.write(b"H")
        self.send_response(self.server.status)
        self.send_header("location", self.server.url)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def receiving() -> Iterator[TestWebhook]:
    """Run a receiver."""
    with TestWebhook() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
