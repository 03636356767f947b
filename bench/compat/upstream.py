"""HTTP server on the loopback interface that cases call: it returns requests, errors and event streams."""

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FIXED: dict[str, tuple[int, str, str]] = {
    "/v1/chat/completions": (
        200,
        "application/json",
        json.dumps(
            {
                "id": "chat-1",
                "object": "chat.completion",
                "created": 1,
                "model": "small",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": "hello"},
                    }
                ],
            }
        ),
    ),
    "/stream/chat/completions": (
        200,
        "text/event-stream",
        "".join(
            f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"
            for choice in (
                {"index": 0, "delta": {"content": "hel"}},
                {"index": 0, "delta": {"content": "lo"}},
            )
        )
        + "data: [DONE]\n\n",
    ),
    "/v1/messages": (
        200,
        "application/json",
        json.dumps(
            {
                "id": "msg-1",
                "type": "message",
                "role": "assistant",
                "model": "small",
                "content": [{"type": "text", "text": "hello"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        ),
    ),
    "/v1/customers": (
        200,
        "application/json",
        json.dumps({"id": "cus_1", "object": "customer", "name": "Ada"}),
    ),
    "/rest/v1/notes": (200, "application/json", json.dumps([{"id": 1, "text": "tea"}])),
    "/bucket/key": (200, "text/plain", "object"),
    "/bucket/": (
        200,
        "application/xml",
        "<ListBucketResult><Name>bucket</Name><KeyCount>2</KeyCount><IsTruncated>false</IsTruncated>"
        "<Contents><Key>a &amp; b</Key><LastModified>2026-11-29T01:02:03.000Z</LastModified>"
        "<Size>3</Size></Contents>"
        "<Contents><Key>c</Key><LastModified>2026-11-29T01:02:04.000Z</LastModified><Size>0</Size></Contents>"
        "</ListBucketResult>",
    ),
    "/bucket/none": (
        404,
        "application/xml",
        "<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>",
    ),
    "/bucket/denied": (
        403,
        "application/xml",
        "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
    ),
}
FIXED["/bucket"] = FIXED["/bucket/"]


class _Handler(BaseHTTPRequestHandler):
    """Returns fixed documents, the status `/status/N` names, redirects, or the request as JSON."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        headers: dict[str, str] = {}
        if url.path in FIXED:
            status, headers["content-type"], text = FIXED[url.path]
        elif url.path.startswith("/status/"):
            status, text = int(url.path.rpartition("/")[2]), json.dumps({"error": {"message": "refused"}})
            headers["content-type"] = "application/json"
        elif url.path == "/redirect":
            status, text, headers["location"] = 302, "moved", "/echo?redirected"
        else:
            request = {"method": self.command, "path": self.path, "type": self.headers.get("content-type")}
            status, text = 200, json.dumps({**request, "body": body.decode(errors="replace")})
            headers["content-type"] = "application/json"
        data = text.encode()
        if url.path == "/gzip":
            data, headers["content-encoding"] = gzip.compress(b"tea " * 100), "gzip"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def upstream() -> Iterator[str]:
    """Serve until the body ends, and yield the origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
