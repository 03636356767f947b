"""Custom domains through a real service, whose DNS is a file of hosts that each test writes."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from engine.control.discovery import find_endpoint
from tests.support.pebble import BLOCKED, authority
from tests.support.service import MANIFEST, PASSWORD, Server, environ_of, prepare, run, static_project, svc
from tests.support.waiting import until

pytestmark = pytest.mark.slow
SEVERAL = 'domains = ["Shop.Example.org", "www.shop.example.org"]\nhsts = true\n'


@dataclass
class Machine:
    """A service that resolves names by the file `hosts`."""

    server: Server
    environ: dict[str, str]
    hosts: Path

    def svc(self, project: Path, *arguments: str, environ: Mapping[str, str] = {}) -> str:
        result = run(project, self.environ | environ, *arguments)
        return f"{result.stdout}{result.stderr}"

    def get(self, host: str, path: str = "/") -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.server.port}{path}", headers={"host": host}, timeout=60)

    def states(self, project: Path) -> dict[str, str]:
        listed = json.loads(prepare(project, self.environ, "domain", "list", "--json"))
        return {each["name"]: each["state"] for each in listed["domains"]}

    def resolve(self, *names: str, address: str = "127.0.0.1") -> None:
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name in names))


@contextmanager
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Iterator[Machine]:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount += ['mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no mount namespaces")
    environ = environ_of(tmp_path / "home")
    command = [*mount, *svc()]
    monkeypatch.setattr("tests.support.service.svc", lambda: command)
    server = Server(tmp_path / "data", environ, "--domain", "apps.example.com", *options)
    monkeypatch.undo()
    try:
        yield Machine(server, environ, hosts)
    finally:
        server.stop()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with running(tmp_path, monkeypatch, "--workers", "2") as machine:
        claim = ("--user", "ann", "--claim", machine.server.code(), "--password-stdin")
        result = run(tmp_path, machine.environ, "login", machine.server.control, *claim, text=PASSWORD)
        assert result.returncode == 0, result.stderr
        yield machine


def test_domain_waits_for_dns_redirects_to_the_first_one_and_is_released(
    machine: Machine, tmp_path: Path
) -> None:
    shop, other = static_project(tmp_path / "shop"), static_project(tmp_path / "other", "other")
    machine.resolve("www.shop.example.org")
    (shop / "svc.toml").write_text(MANIFEST.format("shop") + SEVERAL)
    deployed = run(shop, machine.environ, "deploy", "--json")
    assert deployed.returncode == 0, deployed.stderr
    assert machine.get("shop.example.org").status_code == 404
    until(lambda: machine.states(shop)["www.shop.example.org"] == "valid", pause=0.1)
    assert machine.states(shop)["shop.example.org"] == "waiting"
    assert machine.get("www.shop.example.org").text == "one"
    assert "DNS has no address for this name" in machine.svc(shop, "domain", "check", "Shop.example.org")

    machine.resolve("shop.example.org", "www.shop.example.org")
    assert "127.0.0.1 reaches this service" in machine.svc(shop, "domain", "check", "shop.example.org")
    assert machine.states(shop) == {"shop.example.org": "valid", "www.shop.example.org": "valid"}
    assert machine.get("SHOP.example.org.:80").text == "one"
    redirect = machine.get("www.shop.example.org", "/a%20b?c=d%2F")
    assert redirect.status_code == 308
    assert redirect.headers["location"] == "http://shop.example.org/a%20b?c=d%2F"

    (other / "svc.toml").write_text(MANIFEST.format("other") + 'domains = ["shop.example.org"]\n')
    taken = run(other, machine.environ, "deploy")
    assert taken.returncode == 1 and "shop.example.org belongs to the project shop" in taken.stderr
    (shop / "svc.toml").write_text(MANIFEST.format("shop"))
    assert run(shop, machine.environ, "deploy").returncode == 0
    assert machine.get("shop.example.org").status_code == 404
    deployed = run(other, machine.environ, "deploy")
    assert deployed.returncode == 0 and "● shop.example.org  web  valid" in deployed.stderr, deployed.stderr
    assert machine.get("shop.example.org").text == "one"


def test_deploy_waits_for_certificates_and_says_what_is_missing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, other = static_project(tmp_path / "shop"), static_project(tmp_path / "other", "other")
    refused = f"shop.{BLOCKED}"
    (shop / "svc.toml").write_text(MANIFEST.format("shop") + 'domains = ["shop.example.org"]\n')
    (other / "svc.toml").write_text(MANIFEST.format("other") + f'domains = ["{refused}"]\n')
    with authority(cache, tmp_path / "pebble") as pebble:
        settings = pebble.settings
        options = ["--acme", settings.email, "--acme-directory", settings.directory]
        options += ["--acme-ca-file", settings.ca_file, "--acme-http", f"127.0.0.1:{pebble.http_port}"]
        with running(tmp_path, monkeypatch, *options) as machine:
            endpoint = find_endpoint(tmp_path / "data")
            assert endpoint is not None
            machine.environ |= {"SVC_URL": endpoint.url, "SVC_TOKEN": endpoint.token}
            machine.resolve("shop.example.org", refused)
            deployed = machine.svc(shop, "deploy")
            assert re.search(r"● shop\.example\.org  web  certificate until 2\d{3}-", deployed), deployed
            assert re.search(r"● shop  certificate until 2\d{3}-", deployed)
            checked = machine.svc(shop, "domain", "check", "shop.apps.example.com")
            assert "shop.apps.example.com  waiting for DNS\n" in checked, checked
            machine.resolve("shop.example.org", refused, "shop.apps.example.com")
            checked = machine.svc(shop, "domain", "check", "shop.apps.example.com")
            assert "shop.apps.example.com  certificate until" in checked, checked
            own = machine.svc(tmp_path, "domain", "list")
            assert re.match(
                r"● apps\.example\.com  certificate until 2.*\n  names     apps\.example\.com\n", own
            ), own
            assert re.search(r"\n  renewal   2\d{3}-", own) and own == machine.svc(
                shop, "domain", "list", "--service"
            )
            found = json.loads(machine.svc(tmp_path, "domain", "list", "--json"))["certificate"]
            assert found["certificate"]["state"] == "valid" and found["names"] == ["apps.example.com"]
            deployed = machine.svc(other, "deploy")
            failure = rf"▲ {refused}  web  no certificate: .*{refused} is a forbidden domain"
            assert re.search(failure, deployed), deployed
            assert "; the next try is at 2" in deployed and "live: " in deployed
            checked = machine.svc(other, "domain", "check", refused)
            assert "certificate authority:\n  ▲ " in checked, checked
            assert "svc tries again now" not in checked, "the authority cannot reach port 80"
            assert re.search(failure, machine.svc(other, "domain", "list"))


def test_domain_of_the_service_is_checked_in_every_folder(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = static_project(tmp_path / "shop")
    with authority(cache, tmp_path / "pebble") as pebble:
        settings = pebble.settings
        options = ["--acme", settings.email, "--acme-directory", settings.directory]
        options += ["--acme-ca-file", settings.ca_file, "--acme-http", f"127.0.0.1:{pebble.http_port}"]
        pebble.stop()
        with running(tmp_path, monkeypatch, *options) as machine:
            endpoint = find_endpoint(tmp_path / "data")
            assert endpoint is not None
            machine.environ |= {"SVC_URL": endpoint.url, "SVC_TOKEN": endpoint.token}
            listed = ("domain", "list")
            until(lambda: "no certificate: the authority" in machine.svc(tmp_path, *listed), pause=0.1)
            checked = machine.svc(tmp_path, "domain", "check")
            assert checked.startswith("apps.example.com  waiting for DNS\n"), checked
            assert "A, AAAA  apps.example.com and *.apps.example.com: the addresses of" in checked
            assert "cannot be used: All connection attempts failed" in checked
            machine.resolve("apps.example.com")
            pebble.start()
            checked = machine.svc(shop, "domain", "check", "apps.example.com")
            assert checked.startswith("apps.example.com  no certificate: the authority at"), checked
            assert "127.0.0.1 reaches this service" in checked
            assert "svc tries again now" not in checked, "the authority cannot reach port 80"
            assert machine.svc(tmp_path, "domain", "check", "apps.example.com") == checked
            refused = machine.svc(tmp_path, "domain", "check", "web.example.org")
            assert "web.example.org is not the domain of the service, apps.example.com" in refused
            refused = machine.svc(shop, "domain", "check", "shopp.apps.example.com")
            assert "use a name outside of apps.example.com" in refused
            for text in ("https://shop.example.org/", "", "shop.example.org:443"):
                refused = machine.svc(shop, "domain", "check", text)
                assert f'"{text}"' in refused or f"'{text}'" in refused, refused
                assert not text or "shop.example.org" in refused.replace(text, "", 1), refused
