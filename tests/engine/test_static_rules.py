"""The files `_redirects` and `_headers` in the output of a static resource."""

from dataclasses import replace

import pytest

from engine.lane import BuildFailed
from engine.manifest.model import Redirect, Resource
from engine.static_files.rules import MAX_BYTES, StaticRules
from tests.engine.exchanges import PLAIN


def rules(redirects: str | bytes = "", headers: str = "", resource: Resource = PLAIN) -> StaticRules:
    content = redirects if isinstance(redirects, bytes) else redirects.encode()
    return StaticRules(resource, {"_redirects": content, "_headers": headers.encode()})


def test_redirects_file_is_read_as_its_hosts_do() -> None:
    file = """
        # moved in 2025
        /a /b
        /c   /d   302!   # for now

        /blog/*\t/news/:splat 301
        /out/* https://x.example/:splat 307
        /q /r?x=1
        /f /g#top
    """
    table = rules("\ufeff" + file.replace("\n", "\r\n"))
    results = {
        path: table.redirect(path, b"y=2")
        for path in ("/a", "/c", "/blog/2025/x", "/blog", "/out/z", "/q", "/f", "/b")
    }
    assert results == {
        "/a": (308, (b"location", b"/b?y=2")),
        "/c": (302, (b"location", b"/d?y=2")),
        "/blog/2025/x": (301, (b"location", b"/news/2025/x?y=2")),
        "/blog": (301, (b"location", b"/news/?y=2")),
        "/out/z": (307, (b"location", b"https://x.example/z?y=2")),
        "/q": (308, (b"location", b"/r?x=1")),
        "/f": (308, (b"location", b"/g?y=2#top")),
        "/b": None,
    }


def test_headers_file_joins_repeated_fields_and_the_most_specific_path_wins() -> None:
    table = rules(
        headers="/*\n  X-Frame-Options: DENY\n  cache-control: no-cache\n\n# assets\n/assets/*\n"
        "\tCache-Control: public, max-age=60\n  Link: </a>; rel=preload\n  link: </b>; rel=preload\n"
    )
    assert table.fields("/") == {b"x-frame-options": b"DENY", b"cache-control": b"no-cache"}
    assert table.fields("/assets/x") == {
        b"x-frame-options": b"DENY",
        b"cache-control": b"public, max-age=60",
        b"link": b"</a>; rel=preload, </b>; rel=preload",
    }


def test_manifest_wins_over_files_for_one_path() -> None:
    table = rules(
        "/a /b\n/c /d\n",
        "/a\n  x: file\n  y: file\n/b\n  x: file\n/w/*\n  z: file\n",
        replace(
            PLAIN,
            redirects={"/%61": Redirect("/e")},
            headers={"/%61": {"X": "manifest"}, "/w/*": {"x": "manifest"}},
        ),
    )
    assert table.notes == ["_redirects:1: svc.toml redirects /a, too, and wins"]
    assert [table.redirect(path, b"") for path in ("/a", "/c")] == [
        (308, (b"location", b"/e")),
        (308, (b"location", b"/d")),
    ]
    assert table.fields("/a") == {b"x": b"manifest", b"y": b"file"}
    assert table.fields("/b") == {b"x": b"file"}
    assert table.fields("/w/1") == {b"x": b"manifest", b"z": b"file"}


@pytest.mark.parametrize(
    ("redirects", "headers", "message", "hint"),
    [
        ("/a\n", "", "_redirects:1: not a redirect that svc supports", "Write: /from /to 301"),
        ("/ok /x\n/store id=:id /blog/:id 301", "", "_redirects:2: not a redirect", "query, country"),
        ("/a" * 33 + " /b", "", "_redirects:1: the path has more than 32 segments", "earlier"),
        ("", "/a" * 32 + "/*", "_headers:1: the path has more than 32 segments", "earlier"),
        ("/ /de 302 Country=de", "", "_redirects:1: not a redirect", "country"),
        ("/* /index.html 200", "", "_redirects:1: status 200 is not supported", "spa = true"),
        ("/* /404.html 404", "", "_redirects:1: status 404 is not supported", "not_found"),
        ("/a /b 300", "", "_redirects:1: 300 is not the status", "301, 302"),
        ("/news/:year /blog/:year", "", "_redirects:1: placeholders are not supported", "/*"),
        ("http://a.example/* /b", "", "_redirects:1: the path", "Write"),
        ("/*.php /b", "", '_redirects:1: "/*.php" is not a path pattern', "/prefix/*"),
        ("/a //evil.example", "", '_redirects:1: "//evil.example" is neither', "https://host"),
        ("/a /b\n\n/%61 /c", "", "_redirects:3: /%61 is redirected in line 1", "Remove one"),
        ("/x /y\n/a /b\n/b /a", "", "_redirects:2: the redirect leads to itself: /a → /b", "no other"),
        (b"/a /b\n/\xff /c", "", "_redirects:2: the text is not UTF-8", "UTF-8"),
        (b"#" * (MAX_BYTES + 1), "", "_redirects is larger than 2 MiB", "Remove"),
        ("", "  X: 1", "_headers:1: not a path, and not a header", "Indent"),
        ("", "/a\n  nonsense", "_headers:2: not a path, and not a header", "Indent"),
        ("", "/a\n  ! Cache-Control", "_headers:2: not a path, and not a header", "Indent"),
        ("", "/:x/*\n  a: b\n/a*\n", '_headers:3: "/a*" is not a path pattern', "/prefix/*"),
        ("", "https://a.example/*\n  a: b", "_headers:1: the path", "Write"),
        ("", "/a\n  content-length: 3", "_headers:2: the header content-length is set", "Remove"),
        ("", "/a\n  Basic-Auth: ann:secret", "_headers:2: the header Basic-Auth is set", "Remove"),
        ("", "/a\n  x:", "_headers:2: the value of x is not valid", "printable"),
    ],
)
def test_unsupported_line_is_an_error_with_file_and_line(
    redirects: str | bytes, headers: str, message: str, hint: str
) -> None:
    with pytest.raises(BuildFailed) as error:
        rules(redirects, headers)
    assert error.value.message.startswith(message) and hint in error.value.hint


def test_redirect_of_a_file_and_one_of_the_manifest_that_lead_to_each_other_are_an_error() -> None:
    with pytest.raises(BuildFailed, match="_redirects:1: the redirect leads to itself"):
        rules("/b /a", resource=replace(PLAIN, redirects={"/a": Redirect("/b")}))


def test_ten_thousand_redirects_are_found_by_their_path() -> None:
    lines = [f"/p{n} /q{n}\n/s{n}/* /t{n}/:splat\n" for n in range(5000)]
    table = rules("".join(lines))
    assert table.redirect("/p4999", b"") == (308, (b"location", b"/q4999"))
    assert table.redirect("/s2500/a/b", b"") == (308, (b"location", b"/t2500/a/b"))
    assert table.redirect("/none", b"") is None
