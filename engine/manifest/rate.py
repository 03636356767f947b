"""The key `rate` of a resource: so many requests of one client in a period."""

import re

MAX_REQUESTS = 1_000_000
MAX_SECONDS = 24 * 3600
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": MAX_SECONDS}
_RATE = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,4})([smhd])")


def parse_rate(text: str) -> tuple[int, int]:
    """Return requests and seconds of a rate such as `20/1m`. Raises `ValueError` if invalid."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    requests, seconds = int(match[1]), int(match[2]) * _UNITS[match[3]]
    if requests > MAX_REQUESTS or seconds > MAX_SECONDS:
        raise ValueError(text)
    return requests, seconds
