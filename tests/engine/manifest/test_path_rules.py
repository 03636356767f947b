"""Lookups of rules by path, the URLs of redirects, and redirects that never end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.manifest.model import Redirect
from engine.manifest.path_rules import PathRules, endless, location


def test_exact_path_comes_before_the_longest_pattern_and_both_before_shorter_ones() -> None:
    rules = PathRules({"/*": 1, "/a/*": 2, "/a/b/*": 3, "/a/b": 4, "/x": 5})
    assert [*rules.matching("/a/b")] == [(4, ""), (3, ""), (2, "b"), (1, "a/b")]
    assert [*rules.matching("/a/b/c")] == [(3, "c"), (2, "b/c"), (1, "a/b/c")]
    assert [*rules.matching("/%61/b%2Fc")] == [(2, "b%2Fc"), (1, "%61/b%2Fc")]
    assert [*rules.matching("/ab")] == [(1, "ab")]
    assert [*PathRules({"/x": 5}).matching("/y")] == [*PathRules({}).matching("*")] == []


@pytest.mark.parametrize(
    ("to", "rest", "expected"),
    [
        ("/new/*", "a/b", "/new/a/b"),
        ("/new/*", "", "/new/"),
        ("/find?q=*", "a%20b", "/find?q=a%20b"),
        ("https://x.example/*", "/evil", "https://x.example//evil"),
        ("/*", "/evil.example", "/evil.example"),
        ("/*", "///evil.example", "/evil.example"),
        ("/*", "\\evil.example", "/%5Cevil.example"),
        ("/*", 'a"<b\t\x7f', "/a%22%3Cb%09%7F"),
        ("/*", "%0d%0ax", "/%0d%0ax"),
    ],
)
def test_rest_of_the_path_never_leads_to_another_host(to: str, rest: str, expected: str) -> None:
    assert location(Redirect(to), rest) == expected


@given(rest=st.text(st.characters(max_codepoint=255), max_size=8), prefix=st.sampled_from(["/", "/a/"]))
def test_location_of_a_path_stays_on_its_host_and_in_one_line(rest: str, prefix: str) -> None:
    url = location(Redirect(f"{prefix}*"), rest)
    assert url.startswith("/") and not url.startswith(("//", "/\\"))
    assert url.isascii() and url.isprintable() and " " not in url and "#" not in url and "?" not in url


@pytest.mark.parametrize(
    ("redirects", "found"),
    [
        ({"/a": "/a"}, ["/a"]),
        ({"/a": "/a?x#y"}, ["/a"]),
        ({"/a": "/%61"}, ["/a"]),
        ({"/a": "/b", "/b": "/c", "/c": "/a", "/d": "/e"}, ["/a", "/b", "/c"]),
        ({"/*": "/app"}, ["/*"]),
        ({"/old/*": "/old/new/*"}, ["/old/*"]),
        ({"/a/*": "/b/*", "/b/x": "/a/x"}, ["/b/x"]),
        ({"/a/*": "/b/*", "/b/*": "/a/*"}, ["/a/*", "/b/*"]),
        ({f"/{n}": f"/{n + 1}" for n in range(25)}, ["/0", "/1", "/2", "/3", "/4", "/5"]),
        ({"/old/*": "/*", "/a": "https://a.example/a", "/x": "/x/", "/c/*": "/d", "/d": "/e"}, []),
        ({"/x": "/a/a/y", "/a/*": "/*"}, []),
    ],
)
def test_redirects_that_never_end_are_found(redirects: dict[str, str], found: list[str]) -> None:
    assert [each for each, _ in endless({key: Redirect(to) for key, to in redirects.items()})] == found
