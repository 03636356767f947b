"""Static files from live folders and images, and the behavior of images alone."""

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import brotli  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.artifact import FolderArtifact, StaticBundle
from engine.gateway.static.responder import StaticResponder
from engine.static_files.bundle import BundleCorrupt, blob_path
from tests.engine.exchanges import PLAIN
from tests.support.examples import examples

HTML = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8")


def test_file_is_served_with_type_and_caching_headers(responder, ask, site) -> None:
    answer = ask(responder, "/app.js")
    assert (answer.status, answer.body) == (200, (site / "app.js").read_bytes())
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"].startswith('"')
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/docs/a%20b%23%25%C3%A9&+.txt", b"odd"),
        ("/docs/a%20b%23%25%C3%A9%26%2B.txt", b"odd"),
        ("/%E6%97%A5%E6%9C%AC%E8%AA%9E/%E3%83%95%E3%82%A1%E3%82%A4%E3%83%AB.html", b"nihongo"),
        ("/.well-known/security.txt", b"contact"),
        ("/empty.txt", b""),
        ("/docs/", b"docs"),
        ("/docs/index.html", b"docs"),
    ],
)
def test_encoded_file_name_is_served(responder, ask, path: str, body: bytes) -> None:
    assert ask(responder, path).body == body


def test_root_path_serves_index_page(responder, ask, site) -> None:
    assert ask(responder, "/").body == (site / "index.html").read_bytes()


def test_folder_path_redirects_to_slash_with_query(responder, ask) -> None:
    answer = ask(responder, "/docs", query="a=1&b=%20")
    assert (answer.status, answer.headers["location"]) == (308, "/docs/?a=1&b=%20")
    assert ask(responder, "/docs").headers["location"] == "/docs/"


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/no-index",
        "/no-index/",
        "/app.js/",
        "/app.js/x",
        "/docs/..",
        "/docs%2Findex.html",
        "//",
        "/docs//",
    ],
)
def test_unknown_path_returns_none(responder, ask, path: str) -> None:
    assert ask(responder, path) is None
    assert ask(responder, path, method="POST") is None


def test_head_response_has_headers_of_get_and_no_body(responder, ask) -> None:
    for headers in ([], [("accept-encoding", "br")]):
        head, get = ask(responder, "/app.js", *headers, method="HEAD"), ask(responder, "/app.js", *headers)
        assert (head.status, head.headers, head.body) == (200, get.headers, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_method_returns_405_with_allow_header(responder, ask, method: str) -> None:
    answer = ask(responder, "/app.js", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_matching_etag_returns_304(responder, ask) -> None:
    etag = ask(responder, "/app.js").headers["etag"]
    for condition in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = ask(responder, "/app.js", ("if-none-match", condition))
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == etag
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["vary"] == "accept-encoding"
        assert "content-length" not in answer.headers
    assert ask(responder, "/app.js", ("if-none-match", '"other"')).status == 200


def test_repeated_headers_are_joined(responder, ask) -> None:
    etag = ask(responder, "/app.js").headers["etag"]
    assert ask(responder, "/app.js", ("if-none-match", '"x"'), ("if-none-match", etag)).status == 304


def test_range_is_served_uncompressed(responder, ask, site) -> None:
    content = (site / "app.js").read_bytes()
    for asked, start, stop in (("bytes=0-9", 0, 10), ("bytes=-5", len(content) - 5, len(content))):
        answer = ask(responder, "/app.js", ("range", asked), ("accept-encoding", "br, gzip"))
        assert (answer.status, answer.body) == (206, content[start:stop])
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(content)}"
        assert "content-encoding" not in answer.headers


def test_range_past_end_returns_416_with_size(responder, ask, site) -> None:
    size = len((site / "app.js").read_bytes())
    answer = ask(responder, "/app.js", ("range", f"bytes={size}-"))
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{size}")
    assert ask(responder, "/empty.txt", ("range", "bytes=0-")).status == 416


def test_if_range_with_stale_validator_returns_complete_file(responder, ask) -> None:
    etag = ask(responder, "/app.js").headers["etag"]
    part = ("range", "bytes=0-0")
    assert ask(responder, "/app.js", part, ("if-range", etag)).status == 206
    for stale in ('"stale"', f"W/{etag}", "Sat, 21 Nov 2026 06:00:00 GMT"):
        assert ask(responder, "/app.js", part, ("if-range", stale)).status == 200


def test_unsupported_range_returns_complete_file(responder, ask) -> None:
    assert ask(responder, "/app.js", ("range", "bytes=0-0,2-3")).status == 200
    assert ask(responder, "/app.js", ("range", "lines=0-0")).status == 200
    assert ask(responder, "/app.js", ("range", "bytes=0-0"), method="HEAD").status == 200


def test_hashed_file_of_a_bundle_is_immutable_and_of_a_live_folder_is_not(responder, ask, kind) -> None:
    cached = {"image": "public, max-age=31536000, immutable", "folder": "no-cache"}
    assert ask(responder, "/main.8f3c21ab.js").headers["cache-control"] == cached[kind]


def test_rejection_of_every_coding_returns_406(responder, ask) -> None:
    answer = ask(responder, "/empty.txt", ("accept-encoding", "identity;q=0"))
    assert (answer.status, answer.headers["vary"]) == (406, "accept-encoding")


@pytest.mark.parametrize("path", ["/about", "/users/7", "/users/7/", "/no-index", "/%C3%BCber"])
def test_spa_serves_index_page_to_navigation(make, ask, site, path: str) -> None:
    responder = make(True)
    answer = ask(responder, path, HTML)
    assert (answer.status, answer.body) == (200, (site / "index.html").read_bytes())
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["vary"] == "accept-encoding, accept, sec-fetch-mode"
    assert ask(responder, path, HTML, method="HEAD").status == 200
    for fields in ((), (("accept", "*/*"),), (("accept", "*/*"), ("sec-fetch-mode", "navigate"))):
        assert ask(responder, path, *fields).body == answer.body


def test_spa_returns_none_for_other_requests(make, ask) -> None:
    responder = make(True)
    assert ask(responder, "/about", ("accept", "*/*"), ("sec-fetch-mode", "cors")) is None
    assert ask(responder, "/about", ("accept", "application/json")) is None
    assert ask(responder, "/missing.js", HTML) is None
    assert ask(responder, "/about", HTML, method="POST") is None
    assert ask(responder, "/.git/HEAD", HTML) is None
    assert ask(responder, "/a/../b", HTML) is None
    assert ask(responder, "/docs", HTML).status == 308
    assert ask(responder, "/docs/", HTML).body == b"docs"


def test_spa_without_index_page_returns_none(make, ask, site: Path) -> None:
    (site / "index.html").unlink()
    assert ask(make(True), "/about", HTML) is None


def test_bundle_serves_each_coding_with_own_etag(image: StaticBundle, ask, site) -> None:
    responder, content = StaticResponder(image, PLAIN), (site / "app.js").read_bytes()
    etags = set()
    for coding, decode in (("br", brotli.decompress), ("gzip", gzip.decompress), ("identity", bytes)):
        answer = ask(responder, "/app.js", ("accept-encoding", coding))
        assert decode(answer.body) == content
        assert answer.headers.get("content-encoding", "identity") == coding
        assert ("accept-ranges" in answer.headers) is (coding == "identity")
        etags.add(answer.headers["etag"])
        second = ask(
            responder, "/app.js", ("accept-encoding", coding), ("if-none-match", answer.headers["etag"])
        )
        assert second.status == 304
    assert len(etags) == 3


def test_range_of_compressed_file_returns_complete_file(image: StaticBundle, ask) -> None:
    responder, br = StaticResponder(image, PLAIN), ("accept-encoding", "br")
    etag = ask(responder, "/app.js", br).headers["etag"]
    answer = ask(responder, "/app.js", br, ("range", "bytes=5-"), ("if-range", etag))
    assert (answer.status, answer.headers["content-encoding"]) == (200, "br")


def test_small_files_of_bundle_are_read_once(image: StaticBundle, ask, site) -> None:
    responder, content = StaticResponder(image, PLAIN), (site / "app.js").read_bytes()
    assert ask(responder, "/app.js").body == content
    blob_path(image.folder, hashlib.sha256(content).hexdigest()).unlink()
    assert ask(responder, "/app.js").body == content


def test_missing_blob_raises_before_response(image: StaticBundle, ask, site) -> None:
    responder, content = StaticResponder(image, PLAIN), (site / "app.js").read_bytes()
    blob_path(image.folder, hashlib.sha256(content).hexdigest()).unlink()
    with pytest.raises(FileNotFoundError):
        ask(responder, "/app.js")
    assert ask(responder, "/").status == 200


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b'{"version":2,"files":[]}'])
def test_corrupt_bundle_raises_with_path(image: StaticBundle, damage: bytes) -> None:
    (image.folder / "index.json").write_bytes(damage)
    with pytest.raises(BundleCorrupt, match="corrupt") as exc_info:
        StaticResponder(image, PLAIN)
    assert str(image.folder) in exc_info.value.message
    assert exc_info.value.hint


def test_missing_bundle_raises(tmp_path: Path, make: Callable[[bool], StaticResponder]) -> None:
    with pytest.raises(BundleCorrupt):
        StaticResponder(StaticBundle(tmp_path / "nowhere", "0" * 64), PLAIN)


_PARTS = [
    "docs",
    "docs/",
    "index.html",
    "a b#%é&+.txt",
    "app.js",
    ".well-known",
    "no-index",
    "x",
    "..",
    "%2e",
    "//",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(
    parts=st.lists(st.sampled_from(_PARTS), max_size=4),
    spa=st.booleans(),
    method=st.sampled_from(["GET", "HEAD", "POST"]),
)
def test_folder_and_bundle_return_equal_responses(
    site, image, ask, parts: list[str], spa: bool, method: str
) -> None:
    path = "/" + quote("/".join(parts), safe="/%")
    live = ask(StaticResponder(FolderArtifact(site), replace(PLAIN, spa=spa)), path, HTML, method=method)
    packed = ask(StaticResponder(image, replace(PLAIN, spa=spa)), path, HTML, method=method)
    assert live == packed


@pytest.mark.parametrize(
    "path", ["/pkg/@scope%2Fname", "/a%5Cb", "/%zz", "//", "/docs//x", "/q/%FF", "/q/a%00b"]
)
def test_spa_serves_index_page_to_navigation_to_path_that_no_file_can_have(
    make, ask, site, path: str
) -> None:
    responder = make(True)
    assert ask(responder, path, HTML).body == (site / "index.html").read_bytes()
    assert ask(responder, path, ("accept", "application/json")) is None


@pytest.mark.parametrize(
    "path", ["/pkg/@scope%2Fname.js", "/.env", "/x/%2Eenv/y", "/..%2fapp%2ejs", "/a%2F.git/HEAD"]
)
def test_spa_answers_path_with_a_dot_in_its_last_segment_with_none(make, ask, path: str) -> None:
    assert ask(make(True), path, HTML) is None


def test_if_match_with_another_version_returns_412(responder, ask, kind) -> None:
    etag = ask(responder, "/app.js").headers["etag"]
    part = ("range", "bytes=0-9")
    for other in ('"other"', f"W/{etag}", '"a", "b"', ""):
        for fields in ([], [part], [("range", "bytes=999999-")], [("if-none-match", etag)]):
            answer = ask(responder, "/app.js", ("if-match", other), *fields)
            assert (answer.status, answer.headers["cache-control"]) == (412, "no-cache")
    for same in (etag, f'"other", {etag}', "*"):
        assert ask(responder, "/app.js", ("if-match", same), part).status == 206
        assert ask(responder, "/app.js", ("if-match", same)).status == 200
        assert ask(responder, "/app.js", ("if-match", same), ("if-none-match", etag)).status == 304
    if kind == "image":
        compressed = ("accept-encoding", "br")
        br = ask(responder, "/app.js", compressed).headers["etag"]
        assert ask(responder, "/app.js", compressed, ("if-match", br)).status == 200
        assert ask(responder, "/app.js", compressed, ("if-match", br), part).status == 412
        assert ask(responder, "/app.js", compressed, ("if-match", etag), part).status == 206
