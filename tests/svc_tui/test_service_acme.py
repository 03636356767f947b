"""A service that obtains its certificates by ACME, from Pebble, as `svc serve --acme` does."""

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from engine.certificates import manager
from engine.certificates.dns_provider import RFC2136, DnsProvider
from engine.certificates.manager import PREFIX
from engine.control.discovery import find_endpoint
from svc_tui.client import ApiError, Client
from svc_tui.deploy.format import domain_lines
from tests.support.knot import name_server
from tests.support.pebble import Pebble, authority
from tests.support.waiting import until
from tests.svc_tui.hosted import Hosted, deploy, static_shop

DOMAIN = "apps.example"
SHOP = "web--shop.apps.example"
SECONDS = 60
LIFETIME = 30
"""Seconds that a certificate is valid, of which the last third is left after a renewal."""


@pytest.fixture
def pebble(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pebble]:
    monkeypatch.setattr(manager, "TICK_SECONDS", 0.1)
    with authority(cache, tmp_path / "pebble") as running:
        yield running


@pytest.fixture
def hosted(pebble: Pebble, tmp_path: Path) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data", acme=pebble.settings, http_port=pebble.http_port) as hosted:
        yield hosted


def local(hosted: Hosted) -> Client:
    """Return an owner's client, over the address for programs of this machine."""
    endpoint = find_endpoint(hosted.data)
    assert endpoint is not None
    return Client(endpoint.url, endpoint.token)


def handshake(url: str, name: str | None) -> x509.Certificate:
    """Return the certificate that a client gets which asks for a name, or for none."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    target = httpx.URL(url)
    with (
        socket.create_connection((target.host, target.port or 443)) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        content = connection.getpeercert(binary_form=True)
    assert content is not None
    return x509.load_der_x509_certificate(content)


def names(certificate: x509.Certificate) -> set[str]:
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(alternative.get_values_for_type(x509.DNSName))


def wait_for(url: str, name: str, *, other_than: int = 0) -> x509.Certificate:
    """Wait until a host has a certificate of the authority."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        certificate = handshake(url, name)
        issued = "Pebble" in certificate.issuer.rfc4514_string() and name in names(certificate)
        if issued and certificate.serial_number != other_than:
            return certificate
        time.sleep(0.05)
    raise AssertionError(f"{name} has no certificate")


def test_deploy_gets_a_certificate_that_clients_trust(hosted: Hosted, pebble: Pebble, tmp_path: Path) -> None:
    own = wait_for(hosted.public, DOMAIN)
    with local(hosted) as client:
        deploy(client, static_shop(tmp_path / "shop"))
    assert names(wait_for(hosted.public, SHOP)) == {SHOP, "shop.apps.example"}
    trusting = ssl.create_default_context(cadata=pebble.root())
    for url, host in ((hosted.public, SHOP), (hosted.public, "shop.apps.example"), (hosted.control, DOMAIN)):
        with httpx.Client(verify=trusting, http2=True, timeout=60) as client:
            request = client.build_request("GET", url, headers={"host": host})
            request.extensions["sni_hostname"] = host
            answer = client.send(request)
            assert answer.http_version == "HTTP/2"
            if host != DOMAIN:
                assert answer.text == "one"
    # A request is routed by its host, whatever name the connection was opened for.
    with httpx.Client(verify=trusting, timeout=60) as client:
        for asked, host, status in ((DOMAIN, SHOP, 200), (SHOP, "unknown.example.net", 404)):
            request = client.build_request("GET", hosted.public, headers={"host": host})
            request.extensions["sni_hostname"] = asked
            assert client.send(request).status_code == status
    for name in (None, "unknown.example.net", "web--other.apps.example"):
        assert handshake(hosted.public, name).serial_number == own.serial_number


def test_wildcard_covers_a_project_from_its_first_request_on(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "TICK_SECONDS", 0.1)
    with (
        name_server(cache, tmp_path / "knot", zone=DOMAIN) as knot,
        authority(cache, tmp_path / "pebble", dns=f"{knot.address}:{knot.port}") as pebble,
    ):
        acme = replace(pebble.settings, dns=DnsProvider(RFC2136, DOMAIN, knot.environ()))
        with Hosted(tmp_path / "data", acme=acme, http_port=pebble.http_port) as hosted:
            own = wait_for(hosted.public, DOMAIN)
            assert names(own) == {DOMAIN, f"*.{DOMAIN}"}
            with local(hosted) as client:
                deploy(client, static_shop(tmp_path / "shop"))
            assert handshake(hosted.public, SHOP).serial_number == own.serial_number
            trusting = ssl.create_default_context(cadata=pebble.root())
            with httpx.Client(verify=trusting, timeout=60) as client:
                request = client.build_request("GET", hosted.public, headers={"host": SHOP})
                request.extensions["sni_hostname"] = SHOP
                assert client.send(request).text == "one"


def test_check_of_the_service_tries_its_certificate_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "TICK_SECONDS", 0.1)
    with (
        name_server(cache, tmp_path / "knot", zone=DOMAIN) as knot,
        authority(cache, tmp_path / "pebble", dns=f"{knot.address}:{knot.port}") as pebble,
    ):
        acme = replace(pebble.settings, dns=DnsProvider(RFC2136, DOMAIN, knot.environ()))
        pebble.stop()
        with (
            Hosted(tmp_path / "data", acme=acme, http_port=pebble.http_port) as hosted,
            local(hosted) as client,
        ):

            def own() -> dict[str, Any]:
                found: dict[str, Any] = client.call("GET", "/v1/certificate")["certificate"]
                return found

            until(lambda: own()["certificate"]["state"] == "failed")
            assert own()["retries_at"] and "does not answer" in own()["certificate"]["detail"]
            for _ in range(2):
                checked = client.call("POST", "/v1/certificate/check", {})
                assert not checked["retries"] and "cannot be used" in checked["issuance"]["problem"]
            pebble.start()
            checked = client.call("POST", "/v1/certificate/check", {"name": DOMAIN})
            assert (checked["name"], checked["retries"], checked["records"]) == (DOMAIN, True, [])
            until(lambda: own()["certificate"]["state"] == "valid")
            assert own()["names"] == [f"*.{DOMAIN}", DOMAIN] and not own()["retries_at"]
            assert not client.call("POST", "/v1/certificate/check", {})["retries"]
            with pytest.raises(ApiError, match=r"other\.example is not the domain of the service"):
                client.call("POST", "/v1/certificate/check", {"name": "other.example"})


def test_certificate_without_one_address_is_shown_with_its_end_and_the_address(
    hosted: Hosted, pebble: Pebble, tmp_path: Path
) -> None:
    pebble.resolve_one(SHOP, "127.9.9.9")
    with local(hosted) as client:
        deploy(client, static_shop(tmp_path / "shop"))

        def listed() -> dict[str, Any]:
            found: dict[str, Any] = client.call("GET", "/v1/projects/shop/domains")
            return found

        until(lambda: bool(listed()["certificate"]["detail"]))
        assert names(wait_for(hosted.public, "shop.apps.example")) == {"shop.apps.example"}
        (line,) = domain_lines("shop", listed())
        assert re.match(r"▲ shop  certificate until 2\d{3}-\d\d-\d\d, but not for all names: ", line.plain)
        assert f"http://{SHOP}" in line.plain and "; the next try is at 2" in line.plain
        for name, state in ((SHOP, "failed"), ("shop.apps.example", "valid")):
            certificate = client.call("POST", f"/v1/projects/shop/domains/{name}/check")["certificate"]
            assert certificate["state"] == state


def test_plain_listener_redirects_and_serves_nothing_of_applications(hosted: Hosted, tmp_path: Path) -> None:
    with local(hosted) as client:
        deploy(client, static_shop(tmp_path / "shop"))
    host, port = hosted.plain[0].getsockname()[:2]
    sent = [
        (SHOP, "/a%20b?c=d", 308, f"https://{SHOP}:8080/a%20b?c=d"),
        ("unknown.example.net:80", "/", 308, "https://unknown.example.net:8080/"),
        ("a b", "/", 308, "https://apps.example:8080/"),
        ("[::1]:80", "/x", 308, "https://[::1]:8080/x"),
        (SHOP, "/.well-known/acme-challenge/missing", 404, None),
        ("unknown.example.net", "/.well-known/acme-challenge/x", 404, None),
        (SHOP, "/.well-known/acme-challenge/../../index.html", 404, None),
    ]
    for name, path, status, location in sent:
        connection = http.client.HTTPConnection(host, port)
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("host", name)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["location"]) == (status, location)
        assert b"one" not in answer.read()
        connection.close()


def test_certificates_survive_a_restart_without_another_order(pebble: Pebble, tmp_path: Path) -> None:
    serials = []
    for _ in range(2):
        with Hosted(tmp_path / "data", acme=pebble.settings, http_port=pebble.http_port) as hosted:
            serials.append(wait_for(hosted.public, DOMAIN).serial_number)
    assert serials[0] == serials[1]
    stored = (tmp_path / "data" / "control.db").read_bytes()
    assert PREFIX.encode() in stored and b"PRIVATE KEY" not in stored


@pytest.mark.slow(seconds=50)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_renewal_under_load_loses_no_request(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(manager, "TICK_SECONDS", 0.1)
    with (
        authority(cache, tmp_path / "pebble", lifetime=LIFETIME) as pebble,
        Hosted(
            tmp_path / "data", workers=workers, acme=pebble.settings, http_port=pebble.http_port
        ) as hosted,
    ):
        with local(hosted) as client:
            deploy(client, static_shop(tmp_path / "shop"))
        before = wait_for(hosted.public, SHOP)
        ending, failures, counts = threading.Event(), list[object](), [0, 0]
        target = httpx.URL(hosted.public)
        trusting = ssl.create_default_context(cadata=pebble.root())
        trusting.check_hostname = False

        def load(number: int) -> None:
            """Send requests, the second client with a new connection for each."""
            while not ending.is_set():
                with closing(
                    http.client.HTTPSConnection(target.host, target.port, context=trusting, timeout=60)
                ) as connection:
                    try:
                        while not ending.is_set():
                            connection.request("GET", "/", headers={"host": SHOP})
                            answer = connection.getresponse()
                            if (answer.status, answer.read()) != (200, b"one"):
                                failures.append(answer.status)
                            counts[number] += 1
                            if number:
                                break
                    except OSError as error:
                        failures.append(error)

        threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
        wait_for(hosted.public, DOMAIN)
        for thread in threads:
            thread.start()
        wait_for(hosted.public, SHOP, other_than=before.serial_number)
        ending.set()
        for thread in threads:
            thread.join()
        assert not failures and min(counts) > 5
