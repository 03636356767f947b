"""Stored files of the project as the content of a static resource."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from doors.files.door import FilesDoor
from engine.bucket.protocols import PART_BYTES
from engine.gateway.static.responder import StaticResponder
from engine.manifest.model import Mount, Redirect, Resource
from engine.wasm.outbound.door_calls import DoorBinding
from tests.doors.files.files_door import Files
from tests.engine.gateway.serving import Site, echo, with_site
from tests.engine.gateway.static.conftest import make_image

ROOT = Path("/")
WEB = Resource("web", "static", ROOT, public=True, files="public/")
HTML = {"content-type": "text/html"}
OPEN = {"content-disposition": "inline", "content-security-policy": "default-src 'self'"}
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Serve a resource with these stored files, and the resource `api`, to a test."""
    (tmp_path / "empty").mkdir()
    image = make_image(tmp_path / "empty", tmp_path / "image")
    files = Files(tmp_path / "data")
    doors = {"files": DoorBinding(files.door, FilesDoor.max_body, streams=True)}

    def run(web: Resource, stored: dict[str, bytes], test: Callable[[Site], Awaitable[None]]) -> None:
        async def main(site: Site) -> None:
            for key, content in stored.items():
                assert (await files.put(key.replace(" ", "%20"), content)).status == 201
            await test(site)

        versions = {"web": StaticResponder(image, web), "api": echo()}
        with_site([web, Resource("api", "js", ROOT)], versions, main, doors=doors)

    return run


def test_content_type_is_that_of_the_name_unless_one_was_stored(run: Run) -> None:
    async def test(site: Site) -> None:
        image = await site.ask("/a%20b.png")
        assert (image.content, image.headers["content-type"]) == (b"PNG", "image/png")
        assert image.headers["cache-control"] == "private, no-cache"
        for path, kind in (("/x.svg", "image/svg+xml"), ("/x.html", "text/html; charset=utf-8")):
            page = await site.ask(path)
            assert page.headers["content-type"] == kind
            assert page.headers["content-disposition"] == "attachment"
            assert page.headers["content-security-policy"] == "default-src 'none'; sandbox"
            assert page.headers["x-content-type-options"] == "nosniff"

    run(WEB, {f"public/{name}": b"PNG" for name in ("a b.png", "x.svg", "x.html")}, test)


def test_missing_file_is_a_404_and_recorded(run: Run) -> None:
    async def test(site: Site) -> None:
        for path in (
            "/",
            "/x.png",
            "/public/x.png",
            "/..%2Fx.png",
            "/%ff",
            "/a//b",
            "/.env",
            "/" + "ü" * 300,
        ):
            for method in ("GET", "HEAD", "POST"):
                assert (await site.ask(path, method=method)).status_code == 404
        assert {span.code for span in site.spans} == {"not-found"}

    run(WEB, {"x.png": b"1", "public/.env": b"1"}, test)


def test_folders_have_index_pages(run: Run) -> None:
    web = replace(WEB, redirects={"/fixed/": Redirect("/fixed")}, headers={"/*": OPEN})

    async def test(site: Site) -> None:
        home = await site.ask("/")
        assert (home.text, home.headers["content-disposition"]) == ("home", "inline")
        assert home.headers["content-security-policy"] == "default-src 'self'"
        moved = await site.ask("/d%C3%B6cs?x=1")
        assert (moved.status_code, moved.headers["location"]) == (308, "/d%C3%B6cs/?x=1")
        assert "content-disposition" not in moved.headers
        assert (await site.ask("/d%C3%B6cs/")).text == "docs"
        assert (await site.ask("/fixed/")).headers["location"] == "/fixed"
        fixed = await site.ask("/fixed")
        assert (fixed.status_code, fixed.text) == (200, "fixed")
        assert (await site.ask("/d%C3%B6cs", method="PUT")).status_code == 405

    pages = {"": b"home", "d%C3%B6cs/": b"docs", "fixed/": b"fixed"}
    run(web, {f"public/{folder}index.html": page for folder, page in pages.items()}, test)


def test_page_of_not_found_is_shown_whole(run: Run) -> None:
    web = replace(WEB, not_found="404.html", headers={"/*": {"x-own": "1"}})

    async def test(site: Site) -> None:
        tag = (await site.ask("/404.html")).headers["etag"]
        for fields in ({}, {"range": "bytes=0-1"}, {"if-none-match": tag}, {"if-match": '"x"'}):
            page = await site.ask("/none", headers=fields)
            assert (page.status_code, page.text) == (404, "not here")
            assert (page.headers["content-disposition"], page.headers["x-own"]) == ("inline", "1")
            assert "sandbox" in page.headers["content-security-policy"]
        head = await site.ask("/none", method="HEAD")
        assert (head.status_code, head.headers["content-length"]) == (404, "8")
        assert (await site.ask("/none", method="POST")).json()["code"] == "not-found"

    run(web, {"public/404.html": b"not here"}, test)


def test_fallback_and_mounts_get_other_requests(run: Run) -> None:
    web = replace(WEB, fallback="api", mounts=(Mount("/api/*", "api"),))

    async def test(site: Site) -> None:
        assert (await site.ask("/x.txt")).text == "stored"
        assert (await site.ask("/x.txt", method="POST")).status_code == 405
        assert (await site.ask("/y", "web--shop.localhost", "POST")).text == "POST web--shop.localhost /y"
        assert (await site.ask("/api/x", "web--shop.localhost")).text == "GET web--shop.localhost /api/x"

    run(web, {"public/x.txt": b"stored", "public/api/x": b"behind the mount"}, test)


def test_damaged_file_is_an_error_or_ends_the_response(run: Run, tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        for blob in (tmp_path / "data" / "blobs").iterdir():
            content = blob.read_bytes()
            blob.chmod(0o644)
            blob.write_bytes(content[:-1] + b"!")
        small = await site.ask("/x.txt")
        assert (small.status_code, small.json()["type"]) == (500, "urn:svc:problem:files:file-damaged")
        assert site.spans[-1].status == 500
        large = await site.raw(b"GET /y.txt HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert large.startswith(b"HTTP/1.1 200") and large.endswith(b"yy") and not large.endswith(b"!")
        assert site.spans[-1].code == "blob-damaged"

    run(WEB, {"public/x.txt": b"stored", "public/y.txt": b"y" * (PART_BYTES + 9)}, test)
