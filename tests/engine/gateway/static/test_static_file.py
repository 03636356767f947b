from engine.static_files.content_type import compressible, content_type


def test_content_type_depends_on_extension() -> None:
    assert content_type("a/b.HTML") == "text/html; charset=utf-8"
    assert content_type("x.js") == content_type("x.mjs") == "text/javascript; charset=utf-8"
    assert content_type("m.wasm") == "application/wasm"
    assert content_type("LICENSE") == content_type("dir.html/file") == "application/octet-stream"


def test_compressed_formats_are_not_compressible() -> None:
    assert all(map(compressible, ["a.html", "a.svg", "a.wasm", "a.json", "a.wav", "a.ttf", "LICENSE"]))
    assert not any(map(compressible, ["a.png", "a.mp4", "a.woff2", "a.zip", "a.js.br", "a.gz", "a.mp3"]))


def test_less_common_files_have_a_type() -> None:
    assert content_type("feed.xsl") == "application/xml"
    assert content_type("clip.m4v") == "video/mp4"
    assert content_type("server.log") == "text/plain; charset=utf-8"
