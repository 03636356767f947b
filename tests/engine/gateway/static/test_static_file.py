import pytest

from engine.gateway.static.file import has_content_hash
from engine.static_files.content_type import compressible, content_type


@pytest.mark.parametrize(
    "name",
    [
        "main.8f3c21ab.js",
        "main.8f3c21ab.js.map",
        "assets/index-C9x1TfQ2.js",
        "chunk-5KJ2QX7A.js",
        "chunk-5KJ2QX7A.js.map",
        "style-0a1b2c3d4e5f60718293a4b5c6d7e8f9.css",
    ],
)
def test_content_hash_in_name_is_recognized(name: str) -> None:
    assert has_content_hash(name)


@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "my-document.js",
        "site-settings.css",
        "jquery-3.7.1.min.js",
        "report-20240131.pdf",
        "release-20240131.tar.gz",
        "photo-Screen01.png",
        "index-MainPage.js",
        "app-version2.js",
        "feedface.js",
        "8f3c21ab",
        "a-facade.html",
        "dir-8f3c21ab/app.js",
    ],
)
def test_ordinary_name_has_no_content_hash(name: str) -> None:
    assert not has_content_hash(name)


def test_content_type_depends_on_extension() -> None:
    assert content_type("a/b.HTML") == "text/html; charset=utf-8"
    assert content_type("x.js") == content_type("x.mjs") == "text/javascript; charset=utf-8"
    assert content_type("m.wasm") == "application/wasm"
    assert content_type("LICENSE") == content_type("dir.html/file") == "application/octet-stream"


def test_compressed_formats_are_not_compressible() -> None:
    assert all(map(compressible, ["a.html", "a.svg", "a.wasm", "a.json", "a.wav", "a.ttf", "LICENSE"]))
    assert not any(map(compressible, ["a.png", "a.mp4", "a.woff2", "a.zip", "a.js.br", "a.gz", "a.mp3"]))
