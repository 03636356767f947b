"""What of the timeline is shown: a filter as words, as chips, and as the control API takes it.

Words are `resource:api level:warn status:5xx request:ID since:1h until:10m`; all others are text to be
found. Pure.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from svc_tui.client import SvcError

KEYS = ("resource", "level", "status", "request", "since", "until")
TIMES = ("since", "until")
LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
_TO_QUOTE = re.compile(r"[\s'\"\\]")
_STATUS = re.compile(r"(>=)?[1-5](\d\d|xx)")
_BACK = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


@dataclass(frozen=True, slots=True)
class Filter:
    """Everything that is given has to hold; what is empty is not asked for.

    `since` and `until` are how far back: `10m`. What was recorded until then was before.
    """

    resource: str = ""
    level: str = ""
    status: str = ""
    request: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    @classmethod
    def of(cls, words: Iterable[str]) -> "Filter":
        """Return what words say. Raises `SvcError` for one that means nothing."""
        found: dict[str, str] = {}
        text: list[str] = []
        for word in words:
            key, mark, value = _split(word)
            if not mark or key not in KEYS:
                text.append(word)
                continue
            _check(key, value)
            found[key] = value
        if "since" in found and "until" in found and _seconds(found["since"]) <= _seconds(found["until"]):
            raise SvcError(
                f"nothing was recorded both since:{found['since']} and until:{found['until']}",
                "What is since goes farther back: since:1h until:10m.",
            )
        return cls(**found, text=" ".join(text))

    @classmethod
    def parse(cls, line: str) -> "Filter":
        """Return what a line says; quotes keep blanks together."""
        try:
            return cls.of(shlex.split(line))
        except ValueError as error:
            raise SvcError(
                f"a quote is open in: {line}", "Close it, or put a backslash before it."
            ) from error

    def chips(self) -> list[tuple[str, str]]:
        """Return key and value of each part, in their order."""
        parts = [(key, getattr(self, key)) for key in (*KEYS, "text")]
        return [(key, value) for key, value in parts if value]

    def words(self) -> str:
        """Return the line that says this."""
        words = [value if key == "text" else f"{key}:{value}" for key, value in self.chips()]
        return " ".join(shlex.quote(word) if _TO_QUOTE.search(word) else word for word in words)

    def without(self, key: str) -> "Filter":
        """Return this without one of its parts."""
        return replace(self, **{key: ""})

    def params(self, age: float = 0.0) -> dict[str, str | float]:
        """Return what the control API takes; a span that a mount led to is a part of its root's line.

        `age` is for how many seconds this has been asked for: times stay those that they were at first.
        """
        given: dict[str, str | float] = {
            key: _seconds(value) + age if key in TIMES else value for key, value in self.chips()
        }
        return given if self.resource or self.request else given | {"roots": "true"}


def _seconds(text: str) -> int:
    number, unit = _BACK.fullmatch(text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def _split(word: str) -> tuple[str, str, str]:
    """Return key, mark and value: `:` or `=`, whichever comes first."""
    found = re.match(r"([a-z]+)([:=])(.*)", word, re.DOTALL)
    return (found[1], found[2], found[3]) if found else (word, "", "")


def _check(key: str, value: str) -> None:
    if not value:
        raise SvcError(f"{key}: is followed by nothing", f"Write {key}:VALUE, without a blank.")
    if key == "level" and value.lower() not in LEVELS:
        raise SvcError(f'there is no level "{value}"', f"There are {', '.join(LEVELS)}.")
    if key == "status" and not _STATUS.fullmatch(value):
        raise SvcError(f'"{value}" is no status', "Write status:404, status:5xx or status:>=400.")
    if key in TIMES and not _BACK.fullmatch(value):
        raise SvcError(
            f'"{value}" is no time to look back', f"Write {key}:30s, {key}:10m, {key}:12h or {key}:7d."
        )
