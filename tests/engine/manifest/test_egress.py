import socket
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.manifest.egress import Egress, Origin, is_address, parse_authority, parse_rule
from tests.support.examples import examples

POLICY = Egress.parse(
    ("https://api.example.com", "https://*.example.org", "http://127.0.0.1:9000", "http://[::1]:8080")
)

SPELLINGS = """
0 0.0 0.0.0 00.0.0.0 0x7f.0.0.1 0X7F000001 0x7f.0x0.0x0.0x1 017700000001 0177.0.0.01
127.0.0.1.. 127.0.1. 127.1. 2130706433. 0x7f000001. 127.0.0.1%00 +127.0.0.1 127.0.0.-1
1_27.0.0.1 4294967295 4294967296 0o177.0.0.1 0x.0x.0x.0x 127.0x1 a.0x1 a.00 2852039166
0251.0376.0251.0376 0xa9fea9fe xn--.example xn-- [::ffff:0177.0.0.1] [::ffff:127.1]
[::1.] [::1%] [0::1%1] [v1.a] [[::1]] [::1]] 1.1.1.1:: 1.1.1.1:80:80 1.1.1.1:0x50 host:1e1
127。0。0。1 127．0．0．1 １２７.0.0.1 ①②⑦.⓪.⓪.① 1.1.1.1:８０
"""
"""Spellings of addresses and ports that some resolvers and clients understand."""


@pytest.mark.parametrize(
    ("scheme", "authority"),
    [
        ("https", "api.example.com"),
        ("https", "API.Example.COM"),
        ("https", "api.example.com."),
        ("https", "api.example.com:443"),
        ("https", "api.example.com:00443"),
        ("https", "a.example.org"),
        ("https", "a.b.example.org"),
        ("http", "127.0.0.1:9000"),
        ("http", "[::1]:8080"),
        ("http", "[0:0:0:0:0:0:0:1]:8080"),
    ],
)
def test_listed_origin_is_allowed(scheme: str, authority: str) -> None:
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
        ("https", "xn--pi-9ja.example.com"),
        ("http", "127.0.0.1"),
        ("http", "127.0.0.2:9000"),
        ("http", "localhost:9000"),
        ("http", "[::2]:8080"),
        ("http", "[::ffff:127.0.0.1]:9000"),
        ("http", "[::ffff:7f00:1]:9000"),
        ("http", "[::127.0.0.1]:9000"),
        ("http", "[64:ff9b::127.0.0.1]:9000"),
        ("http", "[2002:7f00:1::]:9000"),
        ("http", "[::]:8080"),
    ],
)
def test_unlisted_origin_is_denied(scheme: str, authority: str) -> None:
    assert not POLICY.allows(parse_authority(scheme, authority))


def test_empty_port_is_default_port() -> None:
    assert parse_authority("http", "host:") == Origin("http", "host", 80)


@pytest.mark.parametrize(
    "authority",
    [
        "",
        "a" * 64,
        "a." * 127 + "aa",
        "host\\evil",
        "ho st",
        "host\r\nx: y",
        "host\0",
        ":80",
        ".",
        "..",
        "a..b",
        "host..",
        ".host",
        "-a.example",
        "a-.example",
        "host:abc",
        "host:0",
        "host:65536",
        "host:-1",
        "host:+80",
        "host:8_0",
        "host:٨٠",
        "host:000080",
        "h:1:2",
        "::1",
        "[::1",
        "[::1]x",
        "[::1]80",
        "[]",
        "[::g]",
        "[::1%lo]",
        "[fe80::1%25eth0]",
        "[127.0.0.1]",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.0x1",
        "127.0.0.1.1",
        "256.0.0.1",
        "1.2.3",
        "0x",
        "example.0x7f",
        "example.1",
        "me@host",
        "api.example.com@evil.net",
        "host/path",
        "host?q",
        "api.example.com:443@evil.net",
        "host#f",
        "bücher.example",
        "ａpi.example.com",
        "api。example",
        "%61pi.example.com",
        "*.example.org",
        "*",
        "a.*.example",
        *SPELLINGS.split(),
    ],
)
def test_invalid_authority_raises(authority: str) -> None:
    with pytest.raises(ValueError):
        parse_authority("http", authority)


NUMBERS = ("{}", "0{}", "00{}", "+{}", "0{:o}", "00{:o}", "0o{:o}", "0x{:x}", "0X{:X}", "0x0{:x}")
PARTS = st.lists(st.sampled_from(("{}", *NUMBERS)), min_size=1, max_size=4)
SIGNS = st.sampled_from([*".:[]%@_-/ \t\0０１。．①ſ", "%2e", "::", "::ffff:", "0x", "xn--", "localhost", ""])


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """An address in one to four numbers of any base, with changes."""
    address, forms = int(draw(st.ip_addresses(v=4))), draw(PARTS)
    last = 8 * (5 - len(forms))
    numbers = [*IPv4Address(address).packed[: len(forms) - 1], address % (1 << last)]
    host = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=True))
    if draw(st.booleans()):
        host = f"[{draw(st.ip_addresses(v=6))}]"
    for sign in draw(st.lists(SIGNS, max_size=2)):
        at = draw(st.integers(0, len(host)))
        host = host[:at] + sign + host[at:]
    return host


@settings(max_examples=examples(150), deadline=None)
@given(authority=spellings())
@example(authority="127.0.0.1")
@example(authority="[0:0::1]:80")
def test_host_that_the_system_reads_as_an_address_is_in_its_canonical_form(authority: str) -> None:
    try:
        host = parse_authority("http", authority).host
    except ValueError:
        return
    assert host.isascii()
    try:
        ((*_, found),) = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        assert not is_address(host)
    else:
        assert is_address(host) and host == str(ip_address(found[0]))


@pytest.mark.parametrize("scheme", ["", "ftp", "HTTP", "https ", "file"])
def test_other_schemes_raise(scheme: str) -> None:
    with pytest.raises(ValueError):
        parse_authority(scheme, "host")


@pytest.mark.parametrize(
    "entry",
    [
        "https://*",
        "https://*.",
        "https://*.*.example",
        "https://a*.example",
        "https://*.127.0.0.1",
        "https://*.[::1]",
        "https:/a",
        "a.example",
        "https://a.example/path",
        "https://",
        "//a.example",
    ],
)
def test_invalid_rule_raises(entry: str) -> None:
    with pytest.raises(ValueError):
        parse_rule(entry)


def test_origin_str_matches_manifest_syntax() -> None:
    assert str(Origin("https", "a.example", 443)) == "https://a.example"
    assert str(Origin("http", "::1", 8080)) == "http://[::1]:8080"


def test_line_adding_preserves_existing_entries() -> None:
    assert Egress.parse(()).line_adding("https://a.example") == 'egress = ["https://a.example"]'
    line = Egress.parse(("https://*.b.example:444",)).line_adding("https://a.example")
    assert line == 'egress = ["https://*.b.example:444", "https://a.example"]'
