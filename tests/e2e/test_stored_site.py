"""A static resource of stored files: in `svc dev`, and on a service with two workers."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_server import dev_server
from tests.support.service import Server, environ_of, login, prepare, run

pytestmark = pytest.mark.slow
MANIFEST = """
[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/media/*" = "media" }

[resource.media]
lane = "static"
files = "public/"
not_found = "404.txt"
redirects = { "/media/old" = "/media/x.png" }
headers = { "/media/x.png" = { cache-control = "public, max-age=9" } }
"""
FILES = {
    "public/media/x.png": b"\x89PNG" * 500_000,
    "public/media/ä b.txt": "tëxt".encode(),
    "public/media/page.html": b"<script>",
    "public/media/docs/index.html": b"docs",
    "public/404.txt": b"nothing here",
    "public/media/.hidden": b"hidden",
    "private/x.png": b"private",
}


def make_project(root: Path) -> Path:
    """Write the project and the files to store in it, below `stored`."""
    (root / "site").mkdir(parents=True)
    (root / "site" / "index.html").write_text("home")
    (root / "svc.toml").write_text(MANIFEST)
    for key, content in FILES.items():
        (root / "stored" / key).parent.mkdir(parents=True, exist_ok=True)
        (root / "stored" / key).write_bytes(content)
    return root


def store_files(project: Path, environ: Mapping[str, str], *options: str) -> None:
    for key in FILES:
        stored = run(project, environ, "files", *options, "put", str(project / "stored" / key), key)
        assert stored.returncode == 0, stored.stderr


def check_site(ask: Any) -> None:
    """Check the answers for the stored files; `ask(method, path, **headers)` requests one."""
    image = FILES["public/media/x.png"]
    whole = ask("GET", "/media/x.png")
    assert (whole.status_code, whole.content) == (200, image)
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["cache-control"] == "public, max-age=9"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "content-disposition" not in whole.headers
    part = ask("GET", "/media/x.png", range="bytes=1-3", **{"if-range": whole.headers["etag"]})
    assert (part.status_code, part.content) == (206, b"PNG")
    assert part.headers["cache-control"] == "public, max-age=9"
    assert ask("GET", "/media/x.png", range="bytes=9000000-").status_code == 416
    assert ask("GET", "/media/x.png", **{"if-none-match": whole.headers["etag"]}).status_code == 304
    head = ask("HEAD", "/media/x.png")
    assert head.headers["content-length"] == str(len(image)) and not head.content
    assert ask("GET", "/media/%C3%A4%20b.txt").text == "tëxt"
    page = ask("GET", "/media/page.html")
    assert page.headers["content-disposition"] == "attachment"
    assert "sandbox" in page.headers["content-security-policy"]
    assert ask("GET", "/media/docs/").text == "docs"
    folder = ask("GET", "/media/docs?a=1")
    assert (folder.status_code, folder.headers["location"]) == (308, "/media/docs/?a=1")
    assert ask("GET", "/media/old").headers["location"] == "/media/x.png"
    refused = ask("POST", "/media/x.png")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    for path in (
        "none",
        "",
        ".hidden",
        "x.png/",
        "x.png/y",
        "%2E%2E/%2E%2E/private/x.png",
        "..%2Fprivate%2Fx.png",
        "x" * 600,
    ):
        missing = ask("GET", f"/media/{path}", range="bytes=0-2")
        assert (missing.status_code, missing.text) == (404, "nothing here"), path
    assert ask("POST", "/media/none").status_code == 404
    assert ask("GET", "/").text == "home"


def test_stored_site_in_development(tmp_path: Path, home: Path) -> None:
    project = make_project(tmp_path / "shop")
    with dev_server(project, home) as server:

        def ask(method: str, path: str, **headers: str) -> httpx.Response:
            return server.request(method, path, headers=headers)

        missing = ask("GET", "/media/x.png")
        assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
        store_files(project, {**os.environ, "SVC_HOME": str(home)})
        check_site(ask)
        digest = hashlib.sha256(FILES["public/media/x.png"]).hexdigest()
        blob = project / ".svc" / "blobs" / digest
        blob.chmod(0o644)
        with blob.open("r+b") as file:
            file.seek(1_500_000)  # Damage in the first MiB is a 500.
            file.write(b"damaged")
        with pytest.raises(httpx.RemoteProtocolError):
            ask("GET", "/media/x.png")
        server.wait_for("blob-damaged")
        (project / "svc.toml").write_text(MANIFEST.replace('"public/"', '"../"'))
        server.wait_for('"../" is not a prefix of keys')
        (project / "svc.toml").write_text(MANIFEST.replace('"public/"', '"private/"'))
        server.until("/media/docs/", lambda answer: answer.status_code == 404)


def test_stored_site_of_a_service(tmp_path: Path, cache: Path) -> None:
    environ = environ_of(tmp_path / "home", cache)
    project = make_project(tmp_path / "shop")
    server = Server(tmp_path / "data", environ, "--workers", "2")

    def ask(method: str, path: str, **headers: str) -> httpx.Response:
        url = f"http://127.0.0.1:{server.port}{path}"
        return httpx.request(method, url, headers={"host": "shop.localhost", **headers}, timeout=60)

    try:
        login(server, project, environ)
        prepare(project, environ, "deploy")
        store_files(project, environ, "--service")
        for _ in range(3):
            check_site(ask)
        moved = MANIFEST.replace('"public/"', '"private/"').replace("/media/*", "/*")
        (project / "svc.toml").write_text(
            moved.replace("\n[resource.web]", 'check = "/x.png"\n\n[resource.web]')
        )
        prepare(project, environ, "deploy")
        assert ask("GET", "/x.png").content == b"private"
        assert ask("GET", "/media/x.png").status_code == 404
        text = (project / "svc.toml").read_text()
        (project / "svc.toml").write_text(text.replace('check = "/x.png"', 'check = "/none"'))
        refused = run(project, environ, "deploy")
        assert "health check failed: resource web responded to /none with 404" in refused.stderr
        assert run(project, environ, "rollback", "--yes").returncode == 0
        check_site(ask)
    finally:
        server.stop()
