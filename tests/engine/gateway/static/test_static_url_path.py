import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.gateway.static.responder import relative_name, url_path
from engine.static_files.bundle import is_servable


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", ""),
        ("/a.txt", "a.txt"),
        ("/a/", "a/"),
        ("/a%20b/%C3%A9%23%25.html", "a b/é#%.html"),
        ("/a+b", "a+b"),
        ("/%2541", "%41"),
        ("/.well-known/security.txt", ".well-known/security.txt"),
        ("/...", None),
    ],
)
def test_path_is_decoded_once(path: str, name: str | None) -> None:
    assert relative_name(path) == name


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "*",
        "//",
        "//evil.example/",
        "/a//b",
        "/./a",
        "/../etc/passwd",
        "/a/..",
        "/a/../",
        "/%2e%2e/x",
        "/.%2E/x",
        "/a%2Fb",
        "/a%2fb",
        "/..%2f..%2fetc/passwd",
        "/a%00b",
        "/a%0d%0ab",
        "/a\\b",
        "/..\\x",
        "/a%5Cb",
        "/a%5c..%5cb",
        "/%",
        "/%2",
        "/%zz",
        "/%u0041",
        "/%C3",
        "/%ff",
        "/%ed%a0%80",
        "/.git/config",
        "/.env",
        "/a/.hidden/b",
        "/%2eenv",
        "/svc.toml",
        "/.well-known/.secret",
    ],
)
def test_unsafe_and_hidden_names_are_rejected(path: str) -> None:
    assert relative_name(path) is None


_SEGMENT = st.text(
    alphabet=st.characters(blacklist_characters="/\\", blacklist_categories=("Cs", "Cc")),
    min_size=1,
    max_size=12,
)


@given(st.lists(_SEGMENT, min_size=1, max_size=4))
def test_url_path_round_trips(segments: list[str]) -> None:
    assume(all(map(is_servable, segments)))
    name = "/".join(segments)
    assert relative_name(url_path(name)) == name


@given(st.text(alphabet="ab./\\%2eEfF05cC%", max_size=30))
def test_relative_name_has_no_parent_or_hidden_segments(path: str) -> None:
    name = relative_name("/" + path)
    if name:
        segments = name.removesuffix("/").split("/")
        assert all(segments)
        assert not any(segment.startswith(".") or "\\" in segment for segment in segments)
