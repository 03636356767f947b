import pytest

from engine.wasm.egress import Egress, Origin, parse_authority

POLICY = Egress.parse(
    ("https://api.example.com", "https://*.example.org", "http://127.0.0.1:9000", "http://[::1]:8080")
)


@pytest.mark.parametrize(
    ("scheme", "authority"),
    [
        ("https", "api.example.com"),
        ("https", "API.Example.COM"),
        ("https", "api.example.com."),
        ("https", "api.example.com:443"),
        ("https", "a.example.org"),
        ("https", "a.b.example.org"),
        ("http", "127.0.0.1:9000"),
        ("http", "[::1]:8080"),
    ],
)
def test_allowed(scheme: str, authority: str) -> None:
    assert POLICY.allows(parse_authority(scheme, authority))


@pytest.mark.parametrize(
    ("scheme", "authority"),
    [
        ("http", "api.example.com"),
        ("https", "api.example.com:444"),
        ("https", "api.example.com.evil.net"),
        ("https", "evilapi.example.com"),
        ("https", "example.org"),
        ("https", "evilexample.org"),
        ("http", "127.0.0.1"),
        ("http", "127.0.0.2:9000"),
        ("http", "localhost:9000"),
        ("http", "[::2]:8080"),
    ],
)
def test_denied(scheme: str, authority: str) -> None:
    assert not POLICY.allows(parse_authority(scheme, authority))


@pytest.mark.parametrize(
    "authority",
    ["", ":80", "host:", "host:abc", "host:0", "host:65536", "host:-1", "[::1", "[::1]x", "h:1:2"],
)
def test_what_is_not_an_authority(authority: str) -> None:
    if authority == "host:":
        assert parse_authority("http", authority) == Origin("http", "host", 80)
        return
    with pytest.raises(ValueError):
        parse_authority("http", authority)


def test_an_origin_reads_as_the_manifest_writes_it() -> None:
    assert str(Origin("https", "a.example", 443)) == "https://a.example"
    assert str(Origin("http", "::1", 8080)) == "http://[::1]:8080"
