"""Invalid deployments: the service rejects them with a reason and leaves the live deployment."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc_tui.client import ApiError, Client
from tests.support.waiting import until
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

JS = MANIFEST.replace('"static"', '"js"').replace('output = "site"\n', 'entry = "a.js"\n')


class Shop:
    """A service with a project that is live, and its owner's client."""

    def __init__(self, hosted: Hosted, client: Client, folder: Path) -> None:
        self.hosted = hosted
        self.client = client
        self.folder = folder
        self.image = hosted.package("image")
        self.revision = client.call("GET", "/v1/projects/shop/deployments")["revision"]

    def upload(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        params = {"size": len(content), "offset": 0}
        self.client.call("PUT", f"/v1/projects/shop/blobs/{digest}", content=[content], params=params)
        return digest

    def package(self, kind: str, **files: bytes) -> str:
        """Upload an artifact's files (`_` stands for `.` in their names) and return their package."""
        parts = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
        named = {name: [self.upload(content), len(content)] for name, content in parts.items()}
        return self.upload(json.dumps({"version": 1, "kind": kind, "files": named}).encode())

    def refused(self, manifest: str, packages: dict[str, str], **more: Any) -> ApiError:
        """Deploy an invalid manifest or package; return the error."""
        body = {"manifest": manifest, "packages": packages, "revision": self.revision} | more
        with pytest.raises(ApiError) as exc_info:
            for line in self.client.lines("POST", "/v1/projects/shop/deployments", body=body):
                if "error" in line:
                    members = line["error"]
                    raise ApiError(members)
                assert "done" not in line
        assert exc_info.value.code != "internal" and "Traceback" not in exc_info.value.message
        assert self.hosted.get().text == "one"
        return exc_info.value


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Share one service between all tests: it rejects every deployment and still serves the first one."""
    folder = tmp_path_factory.mktemp("service")
    root = static_shop(folder / "shop ü")
    with Hosted(folder / "data ü") as hosted, hosted.claim() as client:
        deploy(client, root)
        yield Shop(hosted, client, folder)


@pytest.mark.parametrize(
    "component", [b"", b"rubbish", b"(component)", b"\0asm\x0d\0\x01\0", b"\0asm\x0d\0\x01\0" + b"\xff" * 99]
)
def test_invalid_component_is_rejected(shop: Shop, component: bytes) -> None:
    reason = shop.refused(JS, {"web": shop.package("component", component_wasm=component)})
    assert "web" in reason.message or "component" in reason.message


def test_invalid_package_is_rejected(shop: Shop) -> None:
    for document in (b"", b"[]", b'{"version": 2}', b"\xff", b"[" * 100_000):
        assert shop.refused(MANIFEST, {"web": shop.upload(document)}).code == "package"


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "blobs/..", "index.json/../x", "a\0b"])
def test_package_with_unsafe_file_names_is_rejected(shop: Shop, name: str) -> None:
    files = {name: [shop.upload(b"evil"), 4], "component.wasm": [shop.upload(b"x"), 1]}
    package = shop.upload(json.dumps({"version": 1, "kind": "component", "files": files}).encode())
    assert shop.refused(JS, {"web": package}).code == "package"
    assert not list(shop.folder.rglob("evil"))


def test_package_of_wrong_kind_is_rejected(shop: Shop) -> None:
    shop.refused(MANIFEST, {"web": shop.package("component", component_wasm=b"rubbish")})
    shop.refused(JS, {"web": shop.image})


@pytest.mark.parametrize(
    "index", [b"", b"{}", b"[]", b'{"files": {"/x": {"identity": ["' + b"0" * 64 + b'", 1]}}}']
)
def test_image_with_invalid_index_is_rejected(shop: Shop, index: bytes) -> None:
    shop.refused(MANIFEST, {"web": shop.package("image", index_json=index)})


def test_package_with_missing_blobs_is_rejected(shop: Shop) -> None:
    assert shop.refused(MANIFEST, {"web": "0" * 64}).code == "blob-missing"
    files = {"component.wasm": ["0" * 64, 1]}
    package = shop.upload(json.dumps({"version": 1, "kind": "component", "files": files}).encode())
    assert shop.refused(JS, {"web": package}).code == "blob-missing"


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (MANIFEST + '[resource.web.mounts]\n"/api/*" = "nothing"\n', "nothing"),
        (MANIFEST.replace('"shop"', '"other"'), "other"),
        (MANIFEST.replace('"shop"', '"../shop"'), "name"),
        (MANIFEST.replace('"site"', '"../../etc"'), "output"),
        (MANIFEST.replace("resource.web", 'resource."../web"'), "web"),
        ("\0", "svc.toml"),
        ("x" * 100, "svc.toml"),
        ("a = " + "[" * 50_000, "svc.toml"),
        ("", "project"),
    ],
)
def test_invalid_manifest_is_rejected(shop: Shop, manifest: str, reason: str) -> None:
    result = shop.refused(manifest, {"web": "0" * 64})
    assert reason in result.message + result.hint + json.dumps(result.members)
    assert "/tmp" not in result.message


@pytest.mark.parametrize(
    "name", ["../x.sql", "a/b.sql", "x.txt", "ü" * 200 + ".sql", "a\0.sql", ".sql", "..sql"]
)
def test_migration_with_unsafe_name_is_rejected(shop: Shop, name: str) -> None:
    shop.refused(MANIFEST, {"web": shop.image}, tables={name: "create table evil (;"})
    assert not list(shop.folder.rglob("x.sql"))


@pytest.mark.parametrize(
    "project", ["..", "../shop", "%2e%2e", "..%2f..%2fshop", "shop%00", "Shop", "*", "a" * 300, "%ff"]
)
@pytest.mark.parametrize("what", ["", "/tables", "/logs", "/usage", "/secrets", "/deployments"])
def test_unsafe_project_name_is_rejected(shop: Shop, project: str, what: str) -> None:
    host, _, port = shop.hosted.control.removeprefix("http://").rpartition(":")
    head = f"GET /v1/projects/{project}{what} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    with socket.create_connection((host, int(port)), 60) as opened:
        opened.sendall(f"{head}authorization: Bearer {shop.hosted.token}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: opened.recv(65536), b""))
    assert answer.split(b" ")[1] in (b"404", b"400")


@pytest.mark.parametrize(
    ("digest", "size", "code"),
    [
        ("../../../etc/passwd", 4, "not-found"),
        ("0" * 63, 4, "bucket-bad-name"),
        ("A" * 64, 4, "bucket-bad-name"),
        ("0" * 64, 1 << 31, "body-too-large"),
        ("0" * 64, -1, "invalid"),
        ("0" * 64, 3, "digest-mismatch"),
    ],
)
def test_invalid_upload_is_rejected(shop: Shop, digest: str, size: int, code: str) -> None:
    with pytest.raises(ApiError) as exc_info:
        path = f"/v1/projects/shop/blobs/{digest}"
        shop.client.call("PUT", path, content=[b"abc"], params={"size": size, "offset": 0})
    assert exc_info.value.code == code


def test_slow_upload_does_not_stop_another_projects(shop: Shop) -> None:
    content = b"a file of both projects"
    path = f"/v1/projects/{{}}/blobs/{hashlib.sha256(content).hexdigest()}"
    params = {"size": len(content), "offset": 0}
    finish = threading.Event()

    def slow() -> Iterator[bytes]:
        yield content[:5]
        finish.wait()
        yield content[5:]

    def put(project: str, chunks: Iterable[bytes]) -> int:
        return shop.client.call("PUT", path.format(project), content=chunks, params=params)["received"]

    with ThreadPoolExecutor() as threads:
        uploading = threads.submit(put, "other", slow())
        try:
            until(lambda: any((shop.hosted.data / "uploads").iterdir()))
            assert put("shop", [content]) == len(content)
        finally:
            finish.set()
        assert uploading.result() == len(content)


@pytest.mark.parametrize(
    ("line", "host", "status"),
    [
        ("GET / HTTP/1.1", "web--shop.apps.example", 200),
        ("GET / HTTP/1.1", "WEB--shop.apps.example.:8080", 200),
        ("GET / HTTP/1.1", "web--shop.apps.example@evil.example", 400),
        ("GET / HTTP/1.1", "evil.example/web--shop.apps.example", 400),
        ("GET / HTTP/1.1", "web--shop.apps.example.evil.example", 404),
        ("GET / HTTP/1.1", "[::1", 400),
        ("GET / HTTP/1.1", "ü", 400),
        ("GET / HTTP/1.1", "", 404),
        ("GET / HTTP/1.1", "x" * 9000, 404),
        ("GET http://evil.example/ HTTP/1.1", "web--shop.apps.example", 0),
        ("GET //evil.example/ HTTP/1.1", "web--shop.apps.example", 404),
        ("GET / HTTP/1.1", "web--shop.apps.example\r\nhost: evil.example", 400),
        ("GET / HTTP/1.1", "web--shop.apps.example\r\nx-forwarded-host: evil.example", 200),
    ],
)
def test_malformed_host_header_is_rejected_or_not_found(
    shop: Shop, line: str, host: str, status: int
) -> None:
    address, _, port = shop.hosted.public.removeprefix("http://").rpartition(":")
    with socket.create_connection((address, int(port)), 60) as opened:
        opened.sendall(f"{line}\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: opened.recv(65536), b""))
    got = int(answer.split(b" ")[1])
    assert got == status or (not status and got in (200, 400, 404))
    assert b"evil.example" not in answer


def test_cross_origin_request_without_token_is_unauthenticated(shop: Shop) -> None:
    """A page of another site can send requests through a name that resolves to this machine."""
    headers = {"host": "evil.example", "origin": "http://evil.example"}
    answer = httpx.get(f"{shop.hosted.control}/v1/projects", headers=headers)
    assert answer.status_code == 401 and "access-control-allow-origin" not in answer.headers


def test_user_without_role_is_forbidden_whatever_it_sends(shop: Shop) -> None:
    password = {"password": "a horse on a staple"}
    shop.client.call("PUT", "/v1/users/eve", {**password, "roles": {"blog": "owner"}})
    token = shop.client.call("POST", "/v1/login", {"user": "eve", **password})["token"]
    with Client(shop.hosted.control, token) as eve:
        for method, path in (
            ("POST", "/v1/projects/shop/deployments"),
            ("POST", "/v1/projects/shop/plan"),
            ("PUT", "/v1/projects/shop/secrets/KEY"),
        ):
            with pytest.raises(ApiError) as exc_info:
                eve.call(method, path, {"unknown": 1})
            assert exc_info.value.code == "forbidden"
