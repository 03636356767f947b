"""A service with a certificate: applications and control API over TLS, HTTP/2 if the client supports it."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine.http.tls import Certificate, CertificateError
from svc_tui.client import Client, Unreachable
from svc_tui.serve import server
from tests.support.certificates import self_signed
from tests.support.waiting import until
from tests.svc_tui.hosted import Hosted, deploy, static_shop


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(*self_signed(tmp_path))


@pytest.fixture
def hosted(tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.chain))
    with Hosted(tmp_path / "data ü", certificate) as hosted:
        yield hosted


def trusting(certificate: Certificate, **options: bool) -> httpx.Client:
    context = ssl.create_default_context(cafile=str(certificate.chain))
    return httpx.Client(verify=context, timeout=60, **options)


def test_applications_and_control_api_serve_http_1_and_2_over_tls(
    hosted: Hosted, certificate: Certificate, tmp_path: Path
) -> None:
    root = static_shop(tmp_path / "shop")
    with hosted.claim() as client:
        deploy(client, root)
    for version, options in (("HTTP/2", {"http2": True}), ("HTTP/1.1", {"http1": True})):
        with trusting(certificate, **options) as client:
            health = client.get(f"{hosted.control}/v1/health")
            assert (health.status_code, health.http_version) == (200, version)
            page = client.get(hosted.public, headers={"host": "web--shop.apps.example"})
            assert (page.text, page.http_version) == ("one", version)


def test_tls_port_refuses_plain_http_with_a_sentence(hosted: Hosted) -> None:
    for address in (hosted.public, hosted.control):
        plain = address.replace("https:", "http:")
        for method in ("GET", "HEAD", "POST"):
            answer = httpx.request(method, plain, timeout=60)
            assert (answer.status_code, answer.headers["connection"]) == (400, "close")
        assert httpx.get(plain, timeout=60).text == "This port serves https:// URLs only"
        with socket.create_connection((httpx.URL(address).host, httpx.URL(address).port)) as connection:
            connection.sendall(b"\x00\x01neither")
            assert connection.recv(1000) == b""
        with Client(plain, "") as client, pytest.raises(Unreachable) as caught:
            client.call("GET", "/v1/health")
        assert "Use https:// and the domain of the service" in caught.value.hint
    with Client(hosted.control, "") as client:
        assert client.call("GET", "/v1/health")["status"] == "ok"


def test_tls_port_rejects_old_tls_versions(hosted: Hosted) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError), httpx.Client(verify=context, timeout=60) as client:
        client.get(hosted.control)


def served(hosted: Hosted) -> str:
    """Return the certificate of new connections, as PEM."""
    target = httpx.URL(hosted.public)
    return ssl.get_server_certificate((target.host, target.port or 443))


@pytest.mark.parametrize("workers", [1, 2])
def test_changed_files_are_loaded_and_unusable_ones_are_reported(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(server, "CHECK_SECONDS", 0.05)
    (tmp_path / "new").mkdir()
    chain, key = self_signed(tmp_path / "new")
    with Hosted(tmp_path / "data", certificate, workers) as hosted:
        before = served(hosted)
        key.replace(certificate.key)
        until(lambda: any("cannot be used" in text for text in hosted.output))
        assert served(hosted) == before != chain.read_text()
        (tmp_path / "newer").mkdir()
        chain, key = self_signed(tmp_path / "newer")
        key.replace(certificate.key)
        chain.replace(certificate.chain)
        until(lambda: served(hosted) == certificate.chain.read_text())


def test_expired_certificate_is_served_and_named(tmp_path: Path) -> None:
    certificate = Certificate(*self_signed(tmp_path, days=-1))
    with Hosted(tmp_path / "data", certificate) as hosted:
        assert served(hosted) == certificate.chain.read_text()
        assert any("the certificate of the service expired at 2" in text for text in hosted.output)


@pytest.mark.parametrize("wrong", ["another's", "none", "missing", "swapped"])
def test_serve_with_a_wrong_key_fails(certificate: Certificate, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "other").mkdir()
    _, key = self_signed(tmp_path / "other")
    if wrong == "none":
        key.write_text("no key")
    elif wrong == "missing":
        key.unlink()
    elif wrong == "swapped":
        key = certificate.chain
    with pytest.raises(CertificateError) as exc_info:
        Certificate(certificate.chain, key).load()
    assert str(key) in exc_info.value.message
    assert ("PEM" in exc_info.value.hint) == (wrong != "missing")
