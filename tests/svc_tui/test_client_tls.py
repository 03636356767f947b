"""Certificates that the client trusts, and its errors for the others."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from svc_tui.background_loop import run_in_background
from svc_tui.client import Client, Unreachable
from tests.support.certificates import self_signed

HEALTH = b'{"status": "ok", "api": "1"}'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server with a self-signed certificate; yields its address and the certificate file."""
    file, secret = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(HEALTH)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + HEALTH)
        writer.close()

    @asynccontextmanager
    async def served(stop: asyncio.Event) -> AsyncIterator[int]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            yield server.sockets[0].getsockname()[1]

    with run_in_background(served, "server") as port:
        yield f"https://127.0.0.1:{port}", file


def test_client_with_an_untrusted_certificate_raises_unreachable(server: tuple[str, Path]) -> None:
    with Client(server[0], "") as client, pytest.raises(Unreachable) as exc_info:
        client.call("GET", "/v1/health")
    assert "certificate" in exc_info.value.message and "SSL_CERT_FILE" in exc_info.value.hint


def test_unreachable_names_the_reason_without_its_number() -> None:
    with Client("http://127.0.0.1:1", "") as client, pytest.raises(Unreachable) as exc_info:
        client.call("GET", "/v1/health")
    assert exc_info.value.message == "cannot connect to http://127.0.0.1:1: Connection refused"


def test_client_trusts_the_authority_in_ssl_cert_file(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server[1]))
    with Client(server[0], "") as client:
        assert client.call("GET", "/v1/health")["status"] == "ok"


def test_client_rejects_a_certificate_for_another_name(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server[1]))
    with (
        Client(server[0].replace("127.0.0.1", "localhost"), "") as client,
        pytest.raises(Unreachable) as exc_info,
    ):
        client.call("GET", "/v1/health")
    assert exc_info.value.message.startswith("the certificate of https://localhost:")
    assert exc_info.value.message.endswith(" is for another name")
    assert "Use the URL that `svc serve` prints" in exc_info.value.hint
