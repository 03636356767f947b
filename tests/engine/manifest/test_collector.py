"""URLs of collectors."""

import pytest

from engine.manifest.egress import MAX_URL_CHARS, parse_collector


@pytest.mark.parametrize(
    ("url", "traces"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://OTLP.example.com/", "https://otlp.example.com/v1/traces"),
        ("http://[::1]:9090/api/v1/otlp/", "http://[::1]:9090/api/v1/otlp/v1/traces"),
    ],
)
def test_url_of_a_signal_is_below_the_path(url: str, traces: str) -> None:
    assert parse_collector(url).url("traces") == traces


@pytest.mark.parametrize(
    "url",
    [
        "",
        "collector:4318",
        "ftp://a",
        "http://",
        "http://user:pw@a",
        "http://a?b=c",
        "http://a/b?c",
        "http://a/#b",
        "http://a/b c",
        "http://a/\n",
        "http://a:0",
        "http://127.1",
        "http://a/" + "b" * MAX_URL_CHARS,
    ],
)
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ValueError):
        parse_collector(url)
