"""`sample-apps/gallery`: uploads to signed URLs, images resized by a job in Rust, and ranges of files."""

import asyncio
import json
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lanes.rust.cargo import command
from tests.support.browser import chromium
from tests.support.dev_server import SHOW_SECONDS, DevServer, dev_server
from tests.support.samples import copied_sample

pytestmark = pytest.mark.slow
PASSWORD = {"authorization": "Bearer a password"}
WIDTH, HEIGHT = 700, 350


def png(width: int, height: int) -> bytes:
    """Return a picture of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x60\xa0" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[DevServer]:
    """A server of the page and the API, without the resource in Rust that resizes images."""
    project = copied_sample("gallery", tmp_path_factory.mktemp("api"))
    manifest = project / "svc.toml"
    manifest.write_text(manifest.read_text().partition("# Decodes images")[0])
    (project / ".env").write_text("UPLOAD_PASSWORD='a password'\n")
    with dev_server(project, home) as server:
        yield server


@pytest.fixture(scope="module")
def gallery(
    tmp_path_factory: pytest.TempPathFactory, home: Path, rust_toolchain: None
) -> Iterator[DevServer]:
    """A server of the whole sample, whose decoders of images take a minute to compile."""
    project = copied_sample("gallery", tmp_path_factory.mktemp("gallery"))
    process = subprocess.run(["cargo", "fetch"], cwd=project / "rust", capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"cargo cannot fetch image: {process.stderr[-300:]}")
    # The first build takes longer than svc dev may take to start.
    subprocess.run(command("cargo", "dev"), cwd=project / "rust", check=True, capture_output=True)
    (project / ".env").write_text("UPLOAD_PASSWORD='a password'\n")
    with dev_server(project, home) as server:
        yield server


def begin(server: DevServer, type: str, size: float, **headers: str) -> httpx.Response:
    document = {"name": f"a {type}", "type": type, "size": size}
    return server.request("POST", "/api/items", json=document, headers=headers or PASSWORD)


def upload(server: DevServer, type: str, body: bytes) -> int:
    """Upload a file as the page does, and return its id."""
    begun = begin(server, type, len(body))
    assert begun.status_code == 201, begun.text
    stored = server.request("PUT", begun.json()["url"], content=body, headers={"content-type": type})
    assert stored.status_code == 201, stored.text
    id = int(begun.json()["id"])
    assert server.request("POST", f"/api/items/{id}", headers=PASSWORD).status_code == 200
    return id


def items(server: DevServer) -> dict[int, Any]:
    return {item["id"]: item for item in server.get("/api/items").json()["items"]}


def until(server: DevServer, id: int, holds: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + SHOW_SECONDS
    while not holds(item := items(server)[id]):
        assert time.monotonic() < end, item
        time.sleep(0.05)
    return item


@pytest.mark.nightly
def test_image_is_resized_by_a_job_and_both_forms_are_sent(gallery: DevServer) -> None:
    body = png(WIDTH, HEIGHT)
    id = upload(gallery, "image/png", body)
    item = until(gallery, id, lambda item: item["state"] == "ready")
    assert (item["width"], item["height"], item["size"]) == (WIDTH, HEIGHT, len(body))
    original, thumb = (gallery.get(f"/api/items/{id}/{form}") for form in ("original", "thumb"))
    assert original.content == body and original.headers["content-type"] == "image/png"
    assert thumb.headers["content-type"] == "image/jpeg" and thumb.content.startswith(b"\xff\xd8")
    assert struct.pack(">HH", 320, 640) in thumb.content
    assert gallery.request("DELETE", f"/api/items/{id}", headers=PASSWORD).status_code == 204
    assert gallery.get(f"/api/items/{id}/thumb").status_code == 404
    assert id not in items(gallery)


def test_video_is_sent_in_ranges(api: DevServer) -> None:
    body = bytes(range(256)) * 4000
    id = upload(api, "video/mp4", body)
    assert items(api)[id]["state"] == "ready"
    part = api.get(f"/api/items/{id}/original", headers={"range": "bytes=500000-500099"})
    assert (part.status_code, part.content) == (206, body[500_000:500_100])
    again = api.get(f"/api/items/{id}/original", headers={"if-none-match": part.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.nightly
def test_image_that_cannot_be_decoded_fails_with_the_reason(gallery: DevServer) -> None:
    id = upload(gallery, "image/png", png(9, 9)[:-30])
    item = until(gallery, id, lambda item: item["state"] == "failed")
    assert item["error"]


def test_uploads_are_limited_in_type_and_size_and_need_the_password(api: DevServer) -> None:
    assert begin(api, "text/html", 1).status_code == 415
    assert begin(api, "image/png", 200_000_001).status_code == 413
    assert begin(api, "image/png", 0.5).status_code == 413
    assert api.request("POST", "/api/items", content=b"{", headers=PASSWORD).status_code == 400
    assert begin(api, "image/png", 1, authorization="Bearer x").status_code == 401
    begun = begin(api, "image/png", 3).json()
    for body, type, status in ((b"four", "image/png", 413), (b"abc", "text/html", 403)):
        sent = api.request("PUT", begun["url"], content=body, headers={"content-type": type})
        assert sent.status_code == status, sent.text
    completed = api.request("POST", f"/api/items/{begun['id']}", headers=PASSWORD)
    assert completed.status_code == 409
    assert begun["id"] not in items(api)
    for method, path in (("POST", "/resize/1"), ("GET", "/api/items/1/x"), ("GET", "/api/items/x")):
        assert api.request(method, path, headers={"x-svc-job": "1"}).status_code in (404, 405)


def test_page_uploads_with_progress(api: DevServer, tmp_path: Path) -> None:
    asyncio.run(visit(api, tmp_path, ""))


@pytest.mark.nightly
def test_page_shows_the_image(gallery: DevServer, tmp_path: Path) -> None:
    asyncio.run(visit(gallery, tmp_path, " && item.querySelector('img')?.naturalWidth === 40"))


async def visit(server: DevServer, folder: Path, shown: str) -> None:
    """Upload a picture with the page, until its item satisfies a condition."""
    file = folder / "<i>é.png"
    file.write_bytes(png(40, 30))
    async with chromium() as page:
        for domain in ("Runtime", "Page", "DOM"):
            await page.call(f"{domain}.enable")
        await page.call("Page.navigate", url=server.url + "/")
        await page.until(r"/item|Nothing/.test(document.querySelector('#status')?.textContent)")
        await page.value("document.querySelector('#password').value = 'a password'")
        root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
        chosen = await page.call("DOM.querySelector", nodeId=root, selector="#files")
        await page.call("DOM.setFileInputFiles", files=[str(file)], nodeId=chosen["nodeId"])
        name = json.dumps(file.name)
        await page.until(
            "[...document.querySelectorAll('#items li')].some((item) =>"
            f" item.querySelector('p').textContent === {name}{shown})"
        )
        await page.until("document.querySelectorAll('#uploads li').length === 0")
        assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []
