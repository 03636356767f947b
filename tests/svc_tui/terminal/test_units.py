import pytest

from engine.errors import SvcError
from svc_tui.logs import MAX_SECONDS, parse_age
from svc_tui.terminal.units import duration, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 << 10, "10 KiB"),
        (3_565_158, "3.4 MiB"),
        (5 << 40, "5.0 TiB"),
        (1 << 60, "1048576 TiB"),
    ],
)
def test_size_uses_binary_units(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(840_000, "0.8 ms"), (12_000_000, "12 ms"), (3_400_000_000, "3.4 s")]
)
def test_duration_uses_milliseconds_and_seconds(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("12h", 43_200), ("7d", 604_800), ("999999999d", MAX_SECONDS)],
)
def test_parse_age_returns_seconds(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "5", "1w", "-1m", "1 m", "٣s"])
def test_parse_age_of_invalid_text_raises(text: str) -> None:
    with pytest.raises(SvcError, match="not a valid time"):
        parse_age(text)
