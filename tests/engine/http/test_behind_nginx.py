"""Bytes of clients through nginx, which sends the requests of all over shared connections."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings

from engine.http.exchange import BodyInterrupted, Exchange
from engine.http.sockets import bind
from svc_tui.background_loop import run_in_background
from tests.engine.http.test_differential import SEEDS, conversations
from tests.engine.uploading import handled, respond
from tests.support.examples import examples

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/log crit;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    client_header_timeout 2s;
    client_body_timeout 2s;
    upstream svc {{ server 127.0.0.1:{upstream}; keepalive 1; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://svc;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Mark $request_id;
            proxy_ignore_client_abort on;
            proxy_request_buffering {buffering};
        }}
    }}
}}
"""


@dataclass
class Site:
    """The port of nginx, and the requests that came through it."""

    port: int = 0
    received: list[tuple[list[bytes], bytes]] = field(default_factory=list)
    """The marks of each request, and its body."""

    async def handle(self, exchange: Exchange) -> None:
        body = b""
        with suppress(BodyInterrupted):
            while part := await exchange.body.read():
                body += part
        marks = [value for name, value in exchange.request.headers if name == b"x-mark"]
        self.received.append((marks, body))
        await respond(exchange, b"answer")

    def send(self, data: bytes) -> bytes:
        """Send bytes to nginx on a connection of their own; return what it answers until it closes."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), 30) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while part := client.recv(65536):
                    answer += part
        return answer


@pytest.fixture(scope="module", params=["on", "off"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    program, folder = shutil.which("nginx"), tmp_path_factory.mktemp("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    site = Site()
    with bind("127.0.0.1", 0)[0] as free:
        site.port = free.getsockname()[1]
    with run_in_background(lambda stop: handled(site.handle), "upstream") as (upstream, _):
        text = CONFIGURATION.format(folder=folder, port=site.port, upstream=upstream, buffering=request.param)
        (folder / "conf").write_text(text)
        process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "conf")])
        try:
            deadline = time.monotonic() + 30
            while True:
                with suppress(ConnectionRefusedError):
                    site.send(SEEDS[0])
                    break
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            yield site
        finally:
            process.terminate()
            process.wait()


@settings(max_examples=examples(100), deadline=None)
@given(conversation=conversations())
@example(conversation=(SEEDS[0] + SEEDS[1] + SEEDS[2] + SEEDS[0], []))
def test_each_request_has_one_mark_of_nginx(site: Site, conversation: tuple[bytes, list[float]]) -> None:
    site.received.clear()
    for data in (conversation[0], SEEDS[0]):
        answered = site.send(data).count(b"\r\n\r\nanswer")
    received = site.received
    assert answered == 1 and received
    marks = [mark for marks, _ in received for mark in marks]
    assert len(marks) == len(set(marks)) == len(received)
    assert all(re.fullmatch(b"[0-9a-f]{32}", mark) for mark in marks)
    assert not any(b"x-mark" in body.lower() for _, body in received)
