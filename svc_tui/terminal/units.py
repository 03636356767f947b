"""Formatting of counts, sizes, durations and times."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from svc_tui.client import InvalidUsage

_SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB")
_AGE = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)
_MOMENT = re.compile(r"(?:([\d-]{10})(?:[T ](?=\d)|$))?(\d\d:\d\d(?::\d\d(?:\.\d+)?)?[Z\d:+-]*)?", re.ASCII)
_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Return a number of bytes as text: `812 B`, `3.4 KiB`, `12 MiB`."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_SIZE_UNITS))
    amount = count / (1 << 10 * power)
    return f"{amount:.{1 if amount < 10 else 0}f} {_SIZE_UNITS[power - 1]}"


def duration(nanoseconds: int) -> str:
    """Return a duration in at most 7 characters: `0.8 ms`, `12 ms`, `30.0 s`, `12 min`, `3.5 h`."""
    milliseconds = nanoseconds / 1e6
    if milliseconds < 999.5:
        return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1e3
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def age_seconds(text: str) -> int | None:
    """Return the seconds of an age such as `10m`; None for another text."""
    match = _AGE.fullmatch(text)
    return int(match[1]) * _AGE_UNITS[match[2]] if match else None


def parse_moment(text: str) -> int:
    """Return a time (in UTC unless it has an offset), an age or `now` as Unix ns. Raises `InvalidUsage`."""
    now = datetime.now(UTC)
    age = 0 if text == "now" else age_seconds(text)
    try:
        if age is not None:
            moment = now - timedelta(seconds=age)
        elif text and (match := _MOMENT.fullmatch(text)):
            moment = datetime.fromisoformat(f"{match[1] or now.date()}T{match[2] or '00:00'}")
        else:
            raise ValueError
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        hint = "Use 2026-11-28T14:02 or 14:02 of today (UTC), an age such as 10m, or now."
        raise InvalidUsage(f"{text[:80]} is not a time", hint) from None
    if moment > now:
        raise InvalidUsage(f"{text} is in the future", f"Times are in UTC: it is {now:%Y-%m-%dT%H:%M:%S}.")
    return round(moment.timestamp() * 1e6) * 1000


def local_time(time_ns: int) -> str:
    """Return a Unix time in seconds, with the offset of the local time zone."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).astimezone().isoformat(" ", "seconds")


def clock(time_ns: int, zone: tzinfo | None = None) -> str:
    """Return the time of day with milliseconds; `time_ns` is Unix time, `zone` None the local time zone."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds, zone)}.{nanoseconds // 1_000_000:03}"


@lru_cache(maxsize=16)
def _second(seconds: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).strftime("%H:%M:%S")
