"""Request bodies over the real listener: streams of any size, buffered ones up to the limit."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from quart import Blueprint, Response, request

from engine.control import streaming_body
from engine.control.access import StaticToken
from engine.control.app import MAX_BODY_BYTES, Routes, create_app
from engine.control.streaming_body import MAX_BUFFERED_BYTES
from svc_tui.background_loop import run_in_background
from tests.engine.control.served import served


def subject(may_read: threading.Event) -> Blueprint:
    routes = Routes("subject", __name__)

    @routes.post("/whole", public=True)
    async def read_all() -> str:
        return str(len(await request.get_data(as_text=False)))

    @routes.post("/stream", public=True)
    async def stream() -> str:
        await asyncio.to_thread(may_read.wait)
        size = 0
        async for piece in request.body:
            assert len(piece) < 2 * MAX_BUFFERED_BYTES
            size += len(piece)
        return str(size)

    @routes.post("/refused", public=True)
    async def refused() -> Response:
        return Response("no", 403)

    return routes


@pytest.fixture
def may_read() -> threading.Event:
    return threading.Event()


@pytest.fixture
def address(may_read: threading.Event) -> Iterator[str]:
    app = create_app(StaticToken("x"), [subject(may_read)])
    with run_in_background(lambda stop: served(app, stop), "control") as address:
        yield address
        may_read.set()


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // 50_000):
        yield bytes(50_000)


def test_streamed_body_may_exceed_limit_of_buffered_body(address: str, may_read: threading.Event) -> None:
    may_read.set()
    assert httpx.post(f"{address}/stream", content=pieces(20_000_000)).text == "20000000"
    assert httpx.post(f"{address}/stream", content=bytes(20_000_000)).text == "20000000"


def test_buffered_body_above_limit_returns_413(address: str) -> None:
    assert httpx.post(f"{address}/whole", content=bytes(MAX_BODY_BYTES)).text == str(MAX_BODY_BYTES)
    assert httpx.post(f"{address}/whole", content=pieces(4_000_000)).text == "4000000"
    assert httpx.post(f"{address}/whole", content=bytes(MAX_BODY_BYTES + 1)).status_code == 413
    assert httpx.post(f"{address}/whole", content=pieces(MAX_BODY_BYTES + 100_000)).status_code == 413


def test_unread_body_applies_backpressure(address: str, may_read: threading.Event) -> None:
    host, _, port = address.removeprefix("http://").rpartition(":")
    size = 64 << 20
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /stream HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
        client.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < size:
                sent += client.send(bytes(65536))
        assert sent < 32 << 20
        may_read.set()
        client.settimeout(60)
        while sent < size:
            sent += client.send(bytes(min(65536, size - sent)))
        answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")


def test_early_response_closes_connection(address: str) -> None:
    with httpx.Client() as client:
        for _ in range(20):
            assert client.post(f"{address}/refused", content=pieces(2_000_000)).status_code == 403


def test_empty_body_is_complete(address: str, may_read: threading.Event) -> None:
    may_read.set()
    for path in ("whole", "stream"):
        assert httpx.post(f"{address}/{path}").text == "0"
        assert httpx.post(f"{address}/{path}", content=iter([b""])).text == "0"


@pytest.mark.parametrize("path", ["whole", "stream"])
def test_stalled_body_returns_408(
    path: str, address: str, may_read: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_body, "BODY_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(streaming_body, "IDLE_TIMEOUT_SECONDS", 0.2)
    may_read.set()
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), 60) as client:
        client.sendall(f"POST /{path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nsome".encode())
        answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408") and b"connection: close" in answer.lower()
