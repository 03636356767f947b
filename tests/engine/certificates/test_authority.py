"""Errors of a certificate authority: limits, and no answer."""

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from engine.certificates import authority
from engine.certificates.authority import Authority
from engine.certificates.private import new_key
from engine.certificates.settings import AcmeSettings, AuthorityError
from tests.support.certificates import self_signed

pytest.importorskip("acme", reason="acme is not installed (extra acme)")


class Limited(BaseHTTPRequestHandler):
    """Refuses new accounts with the error `rateLimited`, or does not answer."""

    silent = Event()

    def log_message(self, *_: object) -> None: ...

    def reply(self, status: int, kind: str, document: object) -> None:
        self.send_response(status)
        body = json.dumps(document).encode()
        headers = {"content-type": kind, "content-length": str(len(body)), "replay-nonce": "AAAA"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        url = f"https://{self.headers['host']}/"
        self.reply(200, "application/json", {"newNonce": url, "newAccount": url, "newOrder": url})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        if self.silent.is_set():
            self.silent.wait(1)
            self.rfile.read()
        problem = {
            "type": "urn:ietf:params:acme:error:rateLimited",
            "detail": "too many accounts of 192.0.2.1",
        }
        self.reply(429, "application/problem+json", problem)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[AcmeSettings]:
    chain, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Limited) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield AcmeSettings("ann@example.com", f"https://127.0.0.1:{server.server_port}/dir", str(chain))
        server.shutdown()


def test_rate_limit_is_an_error_with_the_text_of_the_authority(settings: AcmeSettings) -> None:
    with pytest.raises(
        AuthorityError, match=r"too many accounts of 192\.0\.2\.1 \(rateLimited\)"
    ) as exc_info:
        Authority(settings, new_key())
    assert exc_info.value.type == "rateLimited"


def test_authority_that_does_not_answer_is_an_error_with_its_url(
    settings: AcmeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority, "CALL_SECONDS", 0.2)
    Limited.silent.set()
    try:
        with pytest.raises(AuthorityError, match=r"does not answer as expected.*timed out") as exc_info:
            Authority(settings, new_key())
        assert settings.directory in exc_info.value.message
    finally:
        Limited.silent.clear()


def test_untrusted_authority_is_an_error_with_the_reason(settings: AcmeSettings) -> None:
    untrusted = replace(settings, ca_file="")
    with pytest.raises(AuthorityError, match="certificate verify failed") as exc_info:
        Authority(untrusted, new_key())
    assert "MaxRetryError" not in exc_info.value.message
