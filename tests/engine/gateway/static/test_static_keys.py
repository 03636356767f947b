"""Redirects, header fields and the 404 page of a static resource."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.artifact import FolderArtifact
from engine.gateway.static.responder import StaticResponder
from engine.manifest.model import Redirect
from tests.engine.exchanges import PLAIN
from tests.engine.gateway.static.conftest import make_image

KEYS = replace(
    PLAIN,
    not_found="404.html",
    headers={"/*": {"X-Frame-Options": "DENY"}, "/app.js": {"cache-control": "max-age=60"}},
    redirects={
        "/app.css": Redirect("/app.js", 302),
        "/index.html": Redirect("/"),
        "/docs/": Redirect("/docs"),
    },
)
BR = ("accept-encoding", "br")


@pytest.fixture
def responder(kind: str, site: Path, tmp_path: Path) -> StaticResponder:
    (site / "404.html").write_text("<h1>not here</h1>" * 50)
    (site / "app.css").write_text("a file behind a redirect")
    (site / "_redirects").write_text("/old/* /docs/:splat\n")
    (site / "_headers").write_text("/docs/*\n  x-robots-tag: noindex\n")
    if kind == "folder":
        rules = [(name, (site / name).read_bytes()) for name in ("_redirects", "_headers")]
        return StaticResponder(FolderArtifact(site, tuple(rules)), KEYS)
    return StaticResponder(make_image(site, tmp_path / "image"), KEYS)


def test_redirects_come_before_files(responder: StaticResponder, ask: Callable[..., object]) -> None:
    for path, status, to in [
        ("/app.css", 302, "/app.js"),
        ("/index.html", 308, "/"),
        ("/old/", 308, "/docs/"),
    ]:
        for method in ("GET", "HEAD", "POST"):
            answer = ask(responder, path, method=method)
            assert (answer.status, answer.headers["location"], answer.body) == (status, to, b"")  # type: ignore[attr-defined]


def test_fields_replace_those_of_files_and_apply_to_304_ranges_and_the_404_page(responder, ask) -> None:
    answer = ask(responder, "/app.js")
    assert (answer.headers["cache-control"], answer.headers["x-frame-options"]) == ("max-age=60", "DENY")
    etag = ("if-none-match", answer.headers["etag"])
    assert ask(responder, "/app.js", etag).headers["cache-control"] == "max-age=60"
    part = ask(responder, "/app.js", ("range", "bytes=0-3"))
    assert (part.status, part.headers["x-frame-options"], part.body) == (206, "DENY", b"cons")
    assert ask(responder, "/").headers["cache-control"] == "no-cache"
    assert ask(responder, "/docs").headers["x-robots-tag"] == "noindex"
    assert ask(responder, "/nowhere").headers["x-frame-options"] == "DENY"


def test_page_of_not_found_answers_what_no_file_does(responder, ask, site, kind) -> None:
    page = (site / "404.html").read_bytes()
    etag = ask(responder, "/404.html").headers["etag"]
    for path in ("/nowhere", "/..", "/_redirects", "/_headers", "/docs/none"):
        for field in (("if-none-match", etag), ("if-match", '"x"'), ("range", "bytes=0-3")):
            answer = ask(responder, path, field)
            assert (answer.status, answer.body) == (404, page)
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert ask(responder, "/nowhere", method="HEAD").body == b""
    assert ask(responder, "/nowhere", method="POST") is None
    if kind == "image":
        assert ask(responder, "/nowhere", BR).headers["content-encoding"] == "br"
    (site / "404.html").unlink()
    assert kind == "image" or ask(responder, "/nowhere") is None


def test_folder_whose_slash_a_redirect_removes_is_served_without_it(responder, ask) -> None:
    assert ask(responder, "/docs/").headers["location"] == "/docs"
    assert (ask(responder, "/docs").status, ask(responder, "/docs").body) == (200, b"docs")
