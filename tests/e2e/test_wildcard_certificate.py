"""`svc serve --acme-dns rfc2136` as a command: a wildcard certificate from Pebble, by a real DNS server."""

import json
import subprocess
from pathlib import Path

import pytest

from engine.control.discovery import find_endpoint
from tests.support.knot import ZONE, name_server
from tests.support.pebble import authority
from tests.support.service import Server, environ_of, run, static_project, svc
from tests.support.waiting import until
from tests.svc_tui.test_service_acme import handshake, names

pytestmark = pytest.mark.slow(seconds=15)
DOMAIN = f"apps.{ZONE}"


def test_serve_with_rfc2136_obtains_a_wildcard_and_domains_by_http(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, environ = tmp_path / "resolv.conf", environ_of(tmp_path / "home")
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount += ['mount --bind "$0" /etc/resolv.conf && exec "$@"', str(resolver)]
    with (
        name_server(cache, tmp_path / "knot", port=53) as knot,
        authority(cache, tmp_path / "pebble", dns=f"{knot.address}:53") as pebble,
    ):
        resolver.write_text(f"nameserver {knot.address}\n")
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this machine has no mount namespaces")
        command = [*mount, *svc()]
        monkeypatch.setattr("tests.support.service.svc", lambda: command)
        acme = pebble.settings
        options = ["--domain", DOMAIN, "--acme", acme.email, "--acme-dns", "rfc2136"]
        options += ["--acme-directory", acme.directory, "--acme-ca-file", acme.ca_file]
        options += ["--acme-http", f"127.0.0.1:{pebble.http_port}"]
        options += ["--control", "0.0.0.0:0"]
        server = Server(tmp_path / "data", environ | knot.environ(), *options)
        try:
            assert server.control.startswith(f"https://{DOMAIN}:")
            url = f"https://127.0.0.1:{server.port}"
            until(lambda: names(handshake(url, DOMAIN)) == {DOMAIN, f"*.{DOMAIN}"})
            endpoint = find_endpoint(tmp_path / "data")
            assert endpoint is not None
            environ |= {"SVC_URL": endpoint.url, "SVC_TOKEN": endpoint.token}
            project = static_project(tmp_path / "shop")
            manifest = project / "svc.toml"
            manifest.write_text(f'{manifest.read_text()}domains = ["shop.{ZONE}"]\n')
            deployed = run(project, environ, "deploy")
            assert deployed.returncode == 0, deployed.stderr
            assert names(handshake(url, f"web--shop.{DOMAIN}")) == {DOMAIN, f"*.{DOMAIN}"}
            # Its own domain is proven by HTTP-01.
            until(lambda: names(handshake(url, f"shop.{ZONE}")) == {f"shop.{ZONE}"})
            listed = run(project, environ, "domain", "list", "--json")
            (domain,) = json.loads(listed.stdout)["domains"]
            assert domain["name"] == f"shop.{ZONE}"
            assert domain["certificate"]["state"] == "valid", listed.stdout
        finally:
            server.stop()
