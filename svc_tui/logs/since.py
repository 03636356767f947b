"""The grammar of times in `--since` and `--until`: `30s`, `10m`, `12h`, `7d`."""

import re

from engine.errors import InvalidUsage

EXAMPLES = "30s, 10m, 12h, 7d"
MAX_SECONDS = 50 * 365 * 24 * 3600
"""Longer ages are cut to this: no timestamp before 1970 is recorded."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_TIME = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)


def parse_age(text: str) -> int:
    """Return an age in seconds, at most `MAX_SECONDS`. Raises `SvcError` for an invalid one."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidUsage(
            f'"{text}" is not a valid time', f"Use seconds, minutes, hours or days: {EXAMPLES}."
        )
    return min(int(match[1]) * _SECONDS[match[2]], MAX_SECONDS)
