"""Responses and error codes of wasi:http/outgoing-handler for servers over TLS."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conformance.client import MOST, SERVER, new_request, set_authority_placeholder, take_response
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Host
from tests.support.certificates import self_signed

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nsecured"


@pytest.fixture
def untrusted(tmp_path: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with a self-signed certificate."""
    return server_context(*self_signed(tmp_path))


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, ssl.SSLContext]]:
    """A host that trusts a certificate, and the server's TLS context for it."""
    certificate, key = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    host = Host(tmp_path)
    yield host, server_context(certificate, key)
    host.close()


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@contextmanager
def server(context: ssl.SSLContext | None, says: bytes) -> Iterator[str]:
    """Serve one connection on loopback, with TLS if there is a context: send bytes, then disconnect."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.settimeout(10)
            if context is None:
                connection.recv(65536)
                connection.sendall(says)
            else:
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(65536)
                    secured.sendall(says)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def call(host: Host, guest: Guest, context: ssl.SSLContext | None, says: bytes = OK) -> Answer:
    with server(context, says) as authority:
        set_authority_placeholder(guest, authority)
        return host.run(guest, egress=(f"https://{authority}",))


def secured(guest: Guest) -> Step:
    request = new_request(guest, SERVER, "/")
    guest.call("outgoing-request.set-scheme", request, "HTTPS")
    return take_response(guest, guest.call("outgoing-handler/handle", request, None))


def test_trusted_tls_server_responds(trusting: tuple[Host, ssl.SSLContext]) -> None:
    guest = Guest()
    body = guest.call("incoming-response.consume", secured(guest))
    read = guest.call("input-stream.blocking-read", guest.call("incoming-body.stream", body), MOST)
    assert call(trusting[0], guest, trusting[1])[read] == ("ok", b"secured")


def test_untrusted_certificate_reports_certificate_error(host: Host, untrusted: ssl.SSLContext) -> None:
    guest = Guest()
    response = secured(guest)
    assert call(host, guest, untrusted)[response] == ("ok", ("err", "TLS-certificate-error"))


def test_server_without_tls_reports_protocol_error(host: Host) -> None:
    guest = Guest()
    response = secured(guest)
    assert call(host, guest, None)[response] == ("ok", ("err", "TLS-protocol-error"))


def test_disconnect_in_handshake_reports_connection_terminated(host: Host) -> None:
    guest = Guest()
    response = secured(guest)
    assert call(host, guest, None, b"")[response] == ("ok", ("err", "connection-terminated"))


def test_tls_alert_is_reported_by_name(host: Host) -> None:
    guest = Guest()
    response = secured(guest)
    answer = call(host, guest, None, b"\x15\x03\x03\x00\x02\x02\x28")
    assert answer[response] == ("ok", ("err", ("TLS-alert-received", (None, "handshake failure"))))


def test_connect_timeout_includes_tls_handshake(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, SERVER, "/")
    guest.call("outgoing-request.set-scheme", request, "HTTPS")
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-connect-timeout", options, 50_000_000)
    response = take_response(guest, guest.call("outgoing-handler/handle", request, options))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        authority = f"127.0.0.1:{silent.getsockname()[1]}"
        set_authority_placeholder(guest, authority)
        answer = host.run(guest, egress=(f"https://{authority}",))
    assert answer[response] == ("ok", ("err", "connection-timeout"))
