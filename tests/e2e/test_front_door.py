"""Redirects, headers and 404 pages of static resources, in `svc dev` and in a service."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import dev_server
from tests.support.service import PASSWORD, Server, environ_of, login, run, static_project

pytestmark = pytest.mark.slow

KEYS = """not_found = "404.html"
headers = { "/*" = { x-frame-options = "DENY" } }
redirects = { "/old/*" = "/new/*", "/x" = { to = "/y", status = 302 } }
"""


def site(root: Path) -> Path:
    static_project(root)
    manifest = root / "svc.toml"
    manifest.write_text(manifest.read_text() + KEYS)
    (root / "site" / "404.html").write_text("not here")
    (root / "site" / "_redirects").write_text("/file/* https://files.example/:splat 301\n")
    (root / "site" / "_headers").write_text("/index.html\n  cache-control: max-age=60\n")
    return root


def check(get: Callable[[str], httpx.Response]) -> None:
    seen = {path: get(path) for path in ("/old/a?b=c", "/x", "/file/a%20b", "/", "/index.html", "/none")}
    assert {path: (each.status_code, each.headers.get("location")) for path, each in seen.items()} == {
        "/old/a?b=c": (308, "/new/a?b=c"),
        "/x": (302, "/y"),
        "/file/a%20b": (301, "https://files.example/a%20b"),
        "/": (200, None),
        "/index.html": (200, None),
        "/none": (404, None),
    }
    assert seen["/none"].text == "not here" and seen["/none"].headers["x-frame-options"] == "DENY"
    assert seen["/"].headers["cache-control"] == "no-cache"
    assert seen["/index.html"].headers["cache-control"] == "max-age=60"
    assert get("/_redirects").status_code == get("/_headers").status_code == 404


def test_rules_of_a_static_resource_travel_with_its_deployment(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--workers", "2")
    try:
        project = site(tmp_path / "shop")
        login(server, project, environ)
        deployed = run(project, environ, "deploy")
        assert deployed.returncode == 0, deployed.stderr
        check(server.get)
        manifest = project / "svc.toml"
        manifest.write_text(manifest.read_text().replace('"/new/*"', '"/newer/*"'))
        planned = run(project, environ, "deploy", "--plan")
        assert "redirect /old/*" in planned.stdout and "/newer/* 308" in planned.stdout
        (project / "site" / "_redirects").write_text("/a /b\n/app/* /index.html 200\n")
        failed = run(project, environ, "deploy")
        assert failed.returncode != 0 and "_redirects:2: status 200 is not supported" in failed.stderr
        (project / "site" / "404.html").unlink()
        (project / "site" / "_redirects").unlink()
        missing = run(project, environ, "build")
        assert "the output has no file 404.html" in missing.stderr
        check(server.get)
    finally:
        server.stop()


def test_rules_change_with_a_save_in_development(tmp_path: Path, home: Path) -> None:
    project = site(tmp_path / "shop")
    with dev_server(project, home) as dev:
        check(dev.get)
        before = len(dev.lines)
        (project / "site" / "_redirects").write_text("/a\n")
        dev.wait_for("_redirects:1: not a redirect that svc supports", after=before)
        assert dev.get("/file/a").status_code == 301
        (project / "site" / "_redirects").write_text("/a /b 303\n")
        dev.until("/a", lambda answer: answer.status_code == 303)


def test_rate_limits_each_client_of_a_trusted_proxy(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--trusted-proxy", "127.0.0.1")
    try:
        project = static_project(tmp_path / "shop")
        manifest = project / "svc.toml"
        manifest.write_text(manifest.read_text() + 'rate = "2/1h"\n')
        login(server, project, environ)
        deployed = run(project, environ, "deploy")
        assert deployed.returncode == 0, deployed.stderr

        def status(client: str) -> int:
            headers = {"host": "web--shop.localhost", "x-forwarded-for": f"9.9.9.9, {client}"}
            return httpx.get(f"http://127.0.0.1:{server.port}/", headers=headers, timeout=60).status_code

        assert [status("192.0.2.1") for _ in range(3)] == [200, 200, 429]
        assert [status(f"2001:db8::{n}") for n in range(3)] == [200, 200, 429]
        assert status("2001:db8:0:1::1") == status("192.0.2.2") == 200

        def attempt(number: int, client: str) -> int:
            login = {"user": f"nobody{number}", "password": PASSWORD}
            headers = {"x-forwarded-for": client}
            return httpx.post(
                f"{server.control}/v1/login", json=login, headers=headers, timeout=60
            ).status_code

        assert {attempt(number, "192.0.2.9") for number in range(20)} == {401}
        assert (attempt(20, "192.0.2.9"), attempt(21, "192.0.2.10")) == (429, 401)
        refused = server.get()
        assert [server.get().status_code for _ in range(2)] == [200, 429] and refused.status_code == 200
    finally:
        server.stop()


def test_workers_take_clients_from_trusted_proxies(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--trusted-proxy", "127.0.0.0/8", "--workers", "2")
    try:
        project = static_project(tmp_path / "shop")
        manifest = project / "svc.toml"
        manifest.write_text(manifest.read_text() + 'rate = "1/1h"\n')
        login(server, project, environ)
        assert run(project, environ, "deploy").returncode == 0
        headers = {"host": "web--shop.localhost"}
        url = f"http://127.0.0.1:{server.port}/"
        statuses = {
            client: [
                httpx.get(url, headers={**headers, "x-forwarded-for": client}, timeout=60).status_code
                for _ in range(30)
            ]
            for client in ("192.0.2.1", "192.0.2.2")
        }
        assert all(1 <= each.count(200) <= 2 and each.count(429) >= 28 for each in statuses.values())
    finally:
        server.stop()
