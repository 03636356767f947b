"""Schedules of resources: when they occur, by a cron expression or a period.

Times are whole seconds of the Unix epoch.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

Overlap = Literal["skip", "queue", "allow"]
MAX_SCHEDULES = 100
MAX_AT_CHARS = 200
MAX_PATH_CHARS = 300
_FIELDS = (
    ("minute", 59, "0 to 59"),
    ("hour", 23, "0 to 23"),
    ("day-of-month", 31, "1 to 31, or L for the last day"),
    ("month", 12, "1 to 12, or jan to dec"),
    ("day-of-week", 7, "0 to 7 (0 and 7 are Sunday), or sun to sat"),
)
"""The fields of a cron expression: name, largest number, and what is permitted."""
_NAMED = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_PERIOD = re.compile(r"every\s+([0-9]{1,6})\s*([mhd])")
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_MAX_PERIOD = 366 * 86400
_REPEATED = 3 * 3600
"""Longer than any hour that clocks repeat."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A POST to `path` at each time of `at`, a cron expression in `timezone` or `every N(m|h|d)`.

    `overlap` is what happens while the run of an earlier occurrence continues. With `catch_up`, the last
    occurrence that was missed is run late.
    """

    path: str
    at: str
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up: bool = False

    @property
    def times(self) -> str:
        """The text that decides about the occurrences."""
        return self.at if _period(self.at) else f"{self.at} {self.timezone}"

    def next(self, after: int) -> int | None:
        """Return the first occurrence after a time, or None if there is none within 50 years."""
        if period := _period(self.at):
            return (after // period + 1) * period
        start = datetime.fromtimestamp(after, ZoneInfo(self.timezone))
        # Within a repeated hour, the first results can be those of its first pass.
        return next((at for at in _times(self.at, start) if at > after), None)

    def latest(self, after: int, now: int) -> int | None:
        """Return the last occurrence after a time and until now, or None."""
        if period := _period(self.at):
            last = now // period * period
            return last if last > after else None
        begin = datetime.fromtimestamp(now - _REPEATED, ZoneInfo(self.timezone))
        earlier = next(_times(self.at, begin, reverse=True), None)
        latest = earlier if earlier is not None and after < earlier <= now else None
        following = self.next(max(after, earlier if earlier is not None else after))
        while following is not None and following <= now:
            latest, following = following, self.next(following)
        return latest


def at_problem(at: str) -> tuple[str, str] | None:
    """Return message and hint for an invalid `at`, None for a valid one."""
    if len(at) > MAX_AT_CHARS:
        return f"the time has {len(at)} characters; the maximum is {MAX_AT_CHARS}", "Shorten it."
    text = at.strip().lower()
    if text.startswith("every"):
        if _PERIOD.fullmatch(text) is None:
            return f'"{at}" is not a period', 'Write whole minutes, hours or days: "every 5m".'
        if not 0 < _period(at) <= _MAX_PERIOD:
            return f'"{at}" is out of range', "A period has 1 minute to 366 days."
        return None
    if text.startswith("@"):
        if text not in _NAMED:
            return f'unknown time "{at}"', f"Use {', '.join(_NAMED)}, or five fields."
        return None
    fields = at.split()
    if len(fields) != len(_FIELDS):
        count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
        hint = 'Write minute, hour, day of month, month and day of week: "0 3 * * *" is each day at three.'
        return f'"{at}" has {count} instead of five', hint
    for index, (field, (name, most, allowed)) in enumerate(zip(fields, _FIELDS, strict=True)):
        if not _valid(" ".join(["*"] * index + [field] + ["*"] * (4 - index))):
            hint = f"Write {allowed}; also *, ranges (1-5), lists (1,3) and steps (*/2)."
            return f'the {name} field "{field}" of "{at}" is not valid', hint
        # Cron takes such a step, and runs at the first of the numbers alone.
        if any(int(step) > most for step in re.findall(r"/([0-9]+)", field)):
            problem = f'the {name} field "{field}" of "{at}" has a step above {most}'
            return problem, 'Write a smaller step, or a period: "every 90m".'
    if not _valid(text) or Schedule("/", at).next(0) is None:
        return f'"{at}" never occurs', "Write a day that one of its months has."
    return None


def _valid(expression: str) -> bool:
    try:
        CronSim(expression, datetime.fromtimestamp(0, UTC))
    except CronSimError:
        return False
    return True


@lru_cache(maxsize=1024)
def _period(at: str) -> int:
    """Return the seconds of a period, 0 for a cron expression."""
    match = _PERIOD.fullmatch(at.strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else 0


def _times(at: str, start: datetime, *, reverse: bool = False) -> Iterator[int]:
    moments = CronSim(_NAMED.get(at.strip().lower(), at), start, reverse=reverse)
    return (int(moment.timestamp()) for moment in moments)
