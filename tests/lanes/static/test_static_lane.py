import asyncio
import gzip
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest

from engine.artifact import BundleFile, FolderArtifact, StaticBundle
from engine.gateway.static.responder import StaticResponder
from engine.lane import BuildFailed, BuildMode, BuildRequest
from engine.manifest.model import Redirect, Resource
from engine.static_files.bundle import blob_path, read_index
from lanes.static.lane import StaticLane
from tests.engine.exchanges import PLAIN, CollectingExchange


class Workshop:
    """A project folder with one static resource, and the lane that builds it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "mein projekt ü"
        self.cache = root / "cache ü"
        self.output = self.root / "front" / "public"
        self.output.mkdir(parents=True)
        self.lines: list[str] = []
        self.lane = StaticLane()

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def build(
        self, build: str | None = None, mode: BuildMode = "deploy", **fields: Any
    ) -> FolderArtifact | StaticBundle:
        fields = {"workdir": self.root / "front", "output": self.output, **fields}
        resource = Resource("site", "static", build=build, **fields)
        self.lines.clear()
        request = BuildRequest(resource, self.root, self.cache, mode, self.lines.append)
        return asyncio.run(self.lane.build(request))

    def image(self, build: str | None = None, mode: BuildMode = "deploy") -> StaticBundle:
        artifact = self.build(build, mode)
        assert isinstance(artifact, StaticBundle)
        return artifact

    def files(self, image: StaticBundle) -> dict[str, BundleFile]:
        return {file.path: file for file in read_index(image)}

    def failure(self, build: str | None = None, mode: BuildMode = "deploy", **fields: Any) -> BuildFailed:
        with pytest.raises(BuildFailed) as exc_info:
            self.build(build, mode, **fields)
        assert exc_info.value.hint
        return exc_info.value


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    asyncio.run(workshop.lane.aclose())


def test_dev_build_without_a_command_serves_the_folder(shop: Workshop) -> None:
    assert shop.build(mode="dev") == FolderArtifact(shop.output)
    assert not shop.cache.exists()


_FINGERPRINTED = """
assets/index-C9x1TfQ2.js assets/index-BkhO9kq-.css assets/logo-CgT1UAgQ.svg assets/inter-Dx4WkN6B.woff2
assets/index-a1b2c3d4.js assets/index-legacy-C9x1TfQ2.js main.8f3c21ab.js main.8f3c21ab.js.map
static/js/787.28cb0dcd.chunk.js static/css/main.e6c13ad2.css 8f3c21ab90ef12ab34cd.png
static/media/logo.6ce24c58023cc2f8fd88fe9d219db6c6.svg chunk-5KJ2QX7A.js chunk-5KJ2QX7A.js.map
index.4a6dd0d8.css photo.0b12f7a4.webp main-5F3XK2QW.js media/font-4HR2XN7C.woff2 main.2f8c9b7d4e5f6a01.js
_next/static/chunks/pages/index-8f3c21ab90ef12ab.js _next/static/css/8f3c21ab90ef12ab.css
_app/immutable/entry/start.D5m1Qm7X.js _app/immutable/chunks/BFv2rQ9x.js _app/immutable/assets/0.BvQ9bV3w.css
_astro/index.Dx4z12aB.css _astro/logo.Cr4Q9xPo_Z1bHT6.webp _nuxt/entry.B7hO9kqA.css _nuxt/D1AqU2kJ.js
css/main.min.2dbb4f0a8c1e9b7d6f5a3c2e1d0b9a8f7e6d5c4b3a2f1e0d9c8b7a6f5e4d3c2b.css
photo_hu_8f3c21ab90ef12ab.jpg app-8f3c21ab90ef12ab.wasm assets/app.C9x1TfQ2.lean.js
"""
FINGERPRINTED = _FINGERPRINTED.split()

_GIVEN = """
menu-Nov2026B.pdf price-list_EU2026Q3.csv report-20231231a.pdf photo-IMG2026a.jpg scan-20261124.png
team-Sommer26.jpg flyer-A5Final2.pdf invoice-2026112b.pdf invoice-INV00123.pdf logo-V2Final1.svg
logo-Dark2026.svg brochure-DE2026v2.pdf minutes-Q3Plan26.docx backup-20261124T.zip data-EU27GDP1.json
prices-2026Q3EU.xlsx map-Zone12AB.png ticket-AB12CD34.png coupon-SAVE20NOW.png voucher-X9Y8Z7W6.pdf
manual-RX500v2B.pdf driver-Win11x64.exe app-V1Beta12.apk setup-x64Win10.msi font-Inter4v1.woff2
jingle-Take2Mix.mp3 clip-S01E02HD.mp4 trailer-4K60HDR1.webm song-B2B2026x.ogg feed-News2026.xml
theme-Summer26.css theme-DarkMode.css style-V2Beta10.css print-A4Land2.css vendor-Chart3JS.js
jquery-3.7.1.min.js lib-V2Beta10.js app-version2.js index-MainPage.js my-document.js release-20240131.js
sensor-20261a2b.csv batch-1a2b3c4d.txt color-ff00aa11.txt key-8f3c21ab.pem 8f3c21ab
3f2504e0-4f89-11d3-9a0c-0305e82c3301.jpg photo-Screen01.png feedface.js dir-8f3c21ab/app.js
"""
GIVEN = _GIVEN.split()


def test_names_that_bundlers_write_are_hashed_and_names_that_people_give_are_not(shop: Workshop) -> None:
    for name in (*FINGERPRINTED, *GIVEN):
        shop.write(name, name)
    files = shop.files(shop.image("true"))
    assert [name for name in FINGERPRINTED if not files[name].hashed] == []
    assert len(GIVEN) == 50
    assert [name for name in GIVEN if files[name].hashed] == []
    assert not any(file.hashed for file in shop.files(shop.image()).values())


def test_file_that_a_build_copies_or_converts_is_not_hashed(shop: Workshop) -> None:
    for name in FINGERPRINTED:
        source = shop.root / "front" / "given" / name.partition(".")[0].lower() / name.rpartition("/")[2]
        source.parent.mkdir(parents=True, exist_ok=True)
        source.with_suffix(".source").write_text(name)
        shop.write(name, name)
    assert [file.path for file in read_index(shop.image("true")) if file.hashed] == []


def test_folder_that_git_ignores_is_no_source_of_names(shop: Workshop) -> None:
    (shop.root / ".gitignore").write_text("/build\n")
    built = shop.root / "build" / "assets" / "index-C9x1TfQ2.js"
    built.parent.mkdir(parents=True)
    built.write_text("x")
    files = shop.files(shop.image("mkdir -p public/assets; cp ../build/assets/* public/assets"))
    assert files["assets/index-C9x1TfQ2.js"].hashed


def test_deploy_build_bundles_every_file(shop: Workshop) -> None:
    text = "body { color: red }\n" * 100
    shop.write("a/style.css", text)
    shop.write("ü b#%.html", "tiny")
    shop.write("photo.png", b"\x89PNG" + bytes(2000))
    image = shop.image()
    files = shop.files(image)
    assert sorted(files) == ["a/style.css", "photo.png", "ü b#%.html"]
    assert files["a/style.css"].content_type == "text/css; charset=utf-8"
    assert set(files["a/style.css"].encodings) == {"identity", "br", "gzip"}
    assert set(files["ü b#%.html"].encodings) == {"identity"}
    assert set(files["photo.png"].encodings) == {"identity"}
    for coding, decode in (("identity", bytes), ("br", brotli.decompress), ("gzip", gzip.decompress)):
        sha256, size = files["a/style.css"].encodings[coding]
        blob = blob_path(image.folder, sha256).read_bytes()
        assert (hashlib.sha256(blob).hexdigest(), len(blob)) == (sha256, size)
        assert decode(blob).decode() == text
    assert image.folder == shop.cache / "images" / image.digest
    assert hashlib.sha256((image.folder / "index.json").read_bytes()).hexdigest() == image.digest


def test_bundle_is_served(shop: Workshop) -> None:
    shop.write("index.html", "<p>hello</p>" * 100)
    exchange = CollectingExchange("/", (b"accept-encoding", b"br"))
    responder = StaticResponder(shop.image(), PLAIN)
    assert asyncio.run(responder.respond(exchange))
    assert brotli.decompress(exchange.parts[0]) == b"<p>hello</p>" * 100


def test_bundle_does_not_depend_on_file_times(shop: Workshop, tmp_path: Path) -> None:
    for workshop in (shop, other := Workshop(tmp_path / "other")):
        for name in ("b.html", "a.html") if workshop is shop else ("a.html", "b.html"):
            workshop.write(name, "<p>text</p>" * 50)
    os.utime(shop.output / "a.html", (1, 1))
    assert shop.image().digest == other.image().digest
    shop.write("a.html", "changed")
    assert shop.image().digest != other.image().digest
    asyncio.run(other.lane.aclose())


def test_build_command_creates_the_files(shop: Workshop) -> None:
    build = "mkdir -p public/js && echo compiling && echo 'let x' > public/js/app.js"
    assert list(shop.files(shop.image(build))) == ["js/app.js"]
    assert "compiling" in shop.lines
    assert isinstance(shop.build(build, "dev"), StaticBundle)


def test_failed_build_command_is_reported_with_status_and_output(shop: Workshop) -> None:
    error = shop.failure("echo 'no such module' >&2; exit 2")
    assert "the build command of resource site failed with exit status 2" in error.message
    assert error.output == "no such module\n"
    assert not (shop.cache / "images").exists()


def test_missing_output_is_reported_with_folder_and_key(shop: Workshop) -> None:
    shop.output.rmdir()
    error = shop.failure(mode="dev")
    assert error.message == "resource site: the folder front/public does not exist"
    assert "`output` of [resource.site]" in error.hint
    assert "the build command wrote no folder front/public" in shop.failure("true").message
    shop.output.write_text("a file")
    assert "is a file, not a folder" in shop.failure(mode="dev").message


@pytest.mark.parametrize("link", ["front/public", "front"])
def test_output_symlink_out_of_the_project_is_refused(shop: Workshop, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / "public").mkdir(parents=True)
    build = f"cd .. && rm -r {link} && ln -s {outside}{link.removeprefix('front')} {link}"
    for mode in ("dev", "deploy"):
        error = shop.failure(build, mode)
        assert error.message == 'resource site: "front/public" is outside the project folder'
        assert "symlink" in error.hint
        build = "true"


def test_output_symlink_inside_the_project_is_packed(shop: Workshop) -> None:
    build = "rmdir public; mkdir version-2 && echo 2 > version-2/index.html && ln -s version-2 public"
    assert list(shop.files(shop.image(build))) == ["index.html"]
    assert "no folder" in shop.failure("rm public && ln -s public public").message


def test_missing_workdir_or_output_key_is_reported(shop: Workshop) -> None:
    error = shop.failure(workdir=shop.root / "gone")
    assert "resource site: gone does not exist" in error.message
    assert "`workdir`" in error.hint
    assert 'output = "public"' in shop.failure(output=None).hint


def test_hidden_and_outside_files_are_excluded(shop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.txt").write_text("secret")
    for name in (".env", ".git/config", "svc.toml", "index.html", ".well-known/security.txt", "sub/real.txt"):
        shop.write(name, "x")
    (shop.output / "file-link").symlink_to(tmp_path / "secret.txt")
    (shop.output / "folder-link").symlink_to(tmp_path / "outside")
    (shop.output / "env-link").symlink_to(".env")
    (shop.output / "broken").symlink_to("nowhere")
    (shop.output / "sub" / "loop").symlink_to("..")
    (shop.output / "again").symlink_to("sub")
    (shop.output / "inside.html").symlink_to("index.html")
    os.mkfifo(shop.output / "pipe")
    (shop.output / "bad\\name").write_text("x")
    names = sorted(shop.files(shop.image()))
    assert names == [
        ".well-known/security.txt", "again/real.txt", "index.html", "inside.html", "sub/real.txt",
    ]  # fmt: skip
    lines = "\n".join(shop.lines)
    for name in ("file-link", "folder-link", "env-link", "broken", "sub/loop", "pipe", "name"):
        assert name in lines
    assert ".git" not in lines


def test_file_left_out_of_a_live_folder_is_named_once(shop: Workshop) -> None:
    shop.write("index.html", "x")
    (shop.output / os.fsdecode(b"bad\xff.txt")).touch()
    assert isinstance(shop.build(mode="dev"), FolderArtifact)
    assert shop.lines == [r"left out 'bad\udcff.txt': its name is not valid in a URL"]
    shop.build(mode="dev")
    assert shop.lines == []


def test_unchanged_files_are_not_compressed_again(shop: Workshop) -> None:
    shop.write("a.js", "function a() {}\n" * 300)
    shop.write("b.js", "function b() {}\n" * 300)
    first = shop.files(shop.image())
    packed = shop.cache / "static" / "packed"
    before = {note.name: note.stat().st_mtime_ns for note in packed.iterdir()}
    assert len(before) == 4
    shop.write("b.js", "function c() {}\n" * 300)
    second = shop.files(shop.image())
    after = {note.name: note.stat().st_mtime_ns for note in packed.iterdir()}
    assert len(after) == 6
    assert before.items() <= after.items()
    assert first["a.js"] == second["a.js"]


@pytest.mark.parametrize("coding", ["br", "identity"])
@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: bytes(len(content))], ids=["cut", "zeros"]
)
def test_damaged_cached_file_is_made_again(
    shop: Workshop, coding: str, damage: Callable[[bytes], bytes]
) -> None:
    shop.write("a.js", "function a() {}\n" * 300)
    image = shop.image()
    path = blob_path(image.folder, shop.files(image)["a.js"].encodings[coding][0])
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(damage(content))
    assert shop.image() == image
    assert path.read_bytes() == content


def test_dev_compresses_quicker_than_deploy(shop: Workshop) -> None:
    shop.write("data.json", json.dumps([{"number": n, "square": n * n} for n in range(5000)]))
    dev, deploy = (shop.files(shop.image("true", mode))["data.json"] for mode in ("dev", "deploy"))
    assert deploy.encodings["br"][1] < dev.encodings["br"][1]


def test_compression_quality_depends_on_the_gain(shop: Workshop) -> None:
    dice = random.Random(1)
    noise = dice.randbytes(600_000) + bytes(20_000)
    text = " ".join(str(dice.randrange(10**6)) for _ in range(50_000)).encode()
    shop.write("noise.bin", noise)
    shop.write("text.json", text)
    shop.write("random.bin", dice.randbytes(300_000))
    files = shop.files(shop.image())
    for name, data, quality in (("noise.bin", noise, 5), ("text.json", text, 11)):
        packed = brotli.compress(data, quality=quality)
        assert files[name].encodings["br"] == (hashlib.sha256(packed).hexdigest(), len(packed))
    assert set(files["random.bin"].encodings) == {"identity"}


def test_bundle_does_not_depend_on_earlier_compression(shop: Workshop, tmp_path: Path) -> None:
    other = Workshop(tmp_path / "other")
    for workshop in (shop, other):
        workshop.write("noise.bin", random.Random(2).randbytes(600_000) + bytes(20_000))
        workshop.write("text.json", json.dumps(list(range(80_000))))
    shop.image("true", "dev")
    assert shop.image() == shop.image()
    assert shop.image().digest == other.image().digest
    asyncio.run(other.lane.aclose())


def test_damaged_bundle_or_store_is_repaired(shop: Workshop) -> None:
    shop.write("a.js", "function a() {}\n" * 300)
    image = shop.image()
    sha256, _ = shop.files(image)["a.js"].encodings["br"]
    blob_path(image.folder, sha256).unlink()
    (shop.cache / "static" / "blobs" / sha256).unlink()
    assert shop.image() == image
    assert brotli.decompress(blob_path(image.folder, sha256).read_bytes())
    assert [entry.name for entry in (shop.cache / "images").iterdir()] == [image.digest]


def test_concurrent_builds_create_one_bundle(shop: Workshop) -> None:
    for number in range(20):
        shop.write(f"{number}.html", f"<p>{number}</p>" * 100)

    async def together() -> set[str]:
        resource = Resource("site", "static", shop.root / "front", output=shop.output)
        request = BuildRequest(resource, shop.root, shop.cache, "deploy")
        artifacts = await asyncio.gather(*(shop.lane.build(request) for _ in range(4)))
        return {a.digest for a in artifacts if isinstance(a, StaticBundle)}

    (digest,) = asyncio.run(together())
    assert [entry.name for entry in (shop.cache / "images").iterdir()] == [digest]
    assert not list(shop.cache.rglob(".*.tmp"))


def test_unwritable_cache_is_reported(shop: Workshop) -> None:
    shop.write("index.html", "x")
    shop.cache.write_text("a file where the cache should be")
    assert "cannot be packed" in shop.failure().message


def test_empty_output_creates_an_empty_bundle(shop: Workshop) -> None:
    assert shop.files(shop.image()) == {}


@pytest.mark.parametrize("mode", ["dev", "deploy"])
def test_resource_of_stored_files_is_an_empty_bundle(shop: Workshop, mode: BuildMode) -> None:
    shop.write("index.html", "not served")
    stored = shop.build(mode=mode, files="public/", output=None, not_found="404.html")
    assert isinstance(stored, StaticBundle) and shop.files(stored) == {}


@pytest.mark.parametrize("mode", ["dev", "deploy"])
@pytest.mark.parametrize("build", [None, "true"])
def test_invalid_rules_and_a_missing_page_fail_the_build(
    shop: Workshop, mode: BuildMode, build: str | None
) -> None:
    shop.write("index.html", "one")
    error = shop.failure(build, mode, not_found="404.html")
    assert error.message == "resource site: the output has no file 404.html"
    shop.write("404.html", "none")
    shop.build(build, mode, not_found="404.html")
    shop.write("_redirects", "/a /b\n/c /index.html 200\n")
    assert shop.failure(build, mode).message == "_redirects:2: status 200 is not supported"
    shop.write("_redirects", "/a /b\n")
    artifact = shop.build(build, mode)
    shop.build(build, mode, redirects={"/a": Redirect("/c")})
    assert shop.lines == ["_redirects:1: svc.toml redirects /a, too, and wins"]
    loop = shop.failure(build, mode, redirects={"/b": Redirect("/a")})
    assert loop.message == "_redirects:1: the redirect leads to itself: /a → /b → /a → /b"
    exchange = CollectingExchange("/a")
    asyncio.run(StaticResponder(artifact, PLAIN).respond(exchange))
    assert (exchange.status, dict(exchange.headers)[b"location"]) == (308, b"/b")


def test_live_folder_is_another_artifact_once_its_rules_change(shop: Workshop) -> None:
    shop.write("_headers", "/*\n  x: 1\n")
    before = shop.build(mode="dev")
    shop.write("_headers", "/*\n  x: 2\n")
    assert shop.build(mode="dev") != before != FolderArtifact(shop.output)
