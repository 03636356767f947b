"""Bytes of clients through nginx, which sends the requests of all over shared connections."""

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import example, given, settings

from engine.http.exchange import BodyInterrupted, Exchange
from engine.http.sockets import bind
from svc_tui.background_loop import run_in_background
from tests.engine.http.test_differential import SEEDS, conversations
from tests.engine.uploading import handled, respond
from tests.support.examples import examples
from tests.support.waiting import until

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
Received = list[tuple[list[bytes], bytes]]
"""The marks of each request that came through nginx, and its body."""
Send = Callable[[bytes], tuple[bytes, Received]]


@pytest.fixture(scope="module", params=["on", "off"])
def send(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    """Send bytes to nginx on a connection of their own; return its answers, and what this server received."""
    program, folder, received = shutil.which("nginx"), tmp_path_factory.mktemp("nginx"), Received()
    if program is None:
        pytest.skip("nginx is not installed")
    with bind("127.0.0.1", 0)[0] as free:
        port = free.getsockname()[1]

    async def handle(exchange: Exchange) -> None:
        body = b""
        with suppress(BodyInterrupted):
            while part := await exchange.body.read():
                body += part
        received.append(([value for name, value in exchange.request.headers if name == b"x-mark"], body))
        await respond(exchange, b"answer")

    def send(data: bytes) -> tuple[bytes, Received]:
        answer = b""
        with socket.create_connection(("127.0.0.1", port), 30) as client, suppress(ConnectionResetError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(65536):
                answer += part
        return answer, received

    with run_in_background(lambda stop: handled(handle), "upstream") as (upstream, _):
        text = CONFIGURATION.format(folder=folder, port=port, upstream=upstream, buffering=request.param)
        (folder / "conf").write_text(text)
        process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "conf")])
        try:
            until(lambda: (folder / "pid").exists() or process.poll() is not None)
            yield send
        finally:
            process.terminate()
            process.wait()


@settings(max_examples=examples(100), deadline=None)
@given(conversation=conversations())
@example(conversation=(SEEDS[0] + SEEDS[1] + SEEDS[2] + SEEDS[0], []))
def test_each_request_has_one_mark_of_nginx(send: Send, conversation: tuple[bytes, list[float]]) -> None:
    send(conversation[0])
    answer, received = send(SEEDS[0])
    assert answer.count(b"\r\n\r\nanswer") == 1
    marks = [mark for found, _ in received for mark in found]
    assert len(marks) == len(set(marks)) == len(received)
    assert all(re.fullmatch(b"[0-9a-f]{32}", mark) for mark in marks)
    assert not any(b"x-mark" in body.lower() for _, body in received)
    received.clear()
