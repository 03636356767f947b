"""Filters of the timeline: parsing, display and query parameters, and export of the matching records.

A filter is written as `resource:api level:warn status:5xx request:ID since:1h until:10m`; `text:WORDS` and
other words are searched as text. Does not import Textual.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from screens.logs.format import line
from screens.project_client import ProjectClient
from svc_tui.client import SvcError

KEYS = ("resource", "level", "status", "request", "since", "until", "text")
TIMES = ("since", "until")
LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
_TO_QUOTE = re.compile(r"[\s'\"\\]")
_WORD = re.compile(rf"({'|'.join(KEYS)})[:=](.*)", re.DOTALL)
_STATUS = re.compile(r"(>=)?[1-5](\d\d|xx)")
_BACK = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """A record matches if it matches every part that is not empty.

    `since` and `until` are ages such as `10m`.
    """

    resource: str = ""
    level: str = ""
    status: str = ""
    request: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    @classmethod
    def of(cls, words: Iterable[str]) -> "RecordSelection":
        """Parse words. Raises `SvcError` for an invalid one."""
        parts: dict[str, str] = {}
        text: list[str] = []
        for word in words:
            key, value = _split(word)
            _check(key, value)
            if key == "text":
                text.append(value)
            else:
                parts[key] = value
        if "since" in parts and "until" in parts and _seconds(parts["since"]) <= _seconds(parts["until"]):
            raise SvcError(
                f"since:{parts['since']} is not before until:{parts['until']}",
                "Use an earlier time for since: since:1h until:10m",
            )
        return cls(**parts, text=" ".join(text))

    @classmethod
    def parse(cls, line: str) -> "RecordSelection":
        """Parse a line; quotes group words. Raises `SvcError`."""
        try:
            return cls.of(shlex.split(line))
        except ValueError as error:
            raise SvcError(
                f"unclosed quote in: {line}", "Close the quote, or put a backslash before it."
            ) from error

    def chips(self) -> list[tuple[str, str]]:
        """Return key and value of each part that is set."""
        parts = [(key, getattr(self, key)) for key in KEYS]
        return [(key, value) for key, value in parts if value]

    def words(self) -> str:
        """Return the filter as a line that `parse` accepts."""
        words = [
            value if key == "text" and _split(value) == ("text", value) else f"{key}:{value}"
            for key, value in self.chips()
        ]
        return " ".join(shlex.quote(word) if _TO_QUOTE.search(word) else word for word in words)

    def without(self, key: str) -> "RecordSelection":
        return replace(self, **{key: ""})

    def params(self, age: float = 0.0) -> dict[str, str | float]:
        """Return the query parameters; without a resource or request, only root spans match.

        `age` is the number of seconds since the filter was set. It fixes the times of `since` and `until`.
        """
        params: dict[str, str | float] = {
            key: _seconds(value) + age if key in TIMES else value for key, value in self.chips()
        }
        return params if self.resource or self.request else params | {"roots": "true"}


def _seconds(text: str) -> int:
    number, unit = _BACK.fullmatch(text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def _split(word: str) -> tuple[str, str]:
    """Return key and value; the first `:` or `=` separates. A word without a key is text."""
    match = _WORD.fullmatch(word)
    return (match[1], match[2]) if match else ("text", word)


def _check(key: str, value: str) -> None:
    if not value:
        raise SvcError(f"{key}: has no value", f"Write {key}:VALUE without a blank.")
    if key == "level" and value.lower() not in LEVELS:
        raise SvcError(f'unknown level "{value}"', f"Available: {', '.join(LEVELS)}.")
    if key == "status" and not _STATUS.fullmatch(value):
        raise SvcError(f'invalid status "{value}"', "Use status:404, status:5xx or status:>=400.")
    if key in TIMES and not _BACK.fullmatch(value):
        raise SvcError(f'invalid age "{value}"', f"Use {key}:30s, {key}:10m, {key}:12h or {key}:7d.")


PAGE_RECORDS = 1000
"""Records per request."""
LINES = frozenset({".txt", ".log"})
JSON = frozenset({".jsonl", ".ndjson"})
OnExportProgress = Callable[[int, float], None]
"""Receives the number of written records and the processed fraction of the timeline, from 0 to 1."""


def is_text_file(path: Path) -> bool:
    """Return whether a file is for text lines, not JSON, by its suffix. Raises `SvcError` for others."""
    suffix = path.suffix.lower()
    if suffix not in LINES | JSON:
        raise SvcError(
            f"unknown file format: {path}",
            "Use .jsonl for complete JSON records, or .txt or .log for text lines.",
        )
    return suffix in LINES


def export_records(
    client: ProjectClient, filter: RecordSelection, *, lines: bool, on_progress: OnExportProgress
) -> Iterator[bytes]:
    """Yield the encoded records that match a filter, up to the last one at the start. Raises `SvcError`.

    Records are requested page by page, which bounds memory on both sides.
    """
    count, after, first, last = 0, 0, 0, None
    began = monotonic()
    while True:
        params: dict[str, Any] = {
            **filter.params(monotonic() - began),
            "after": after,
            "n": PAGE_RECORDS,
            "spans": "true",
        }
        answer = client.call_sync("GET", "/logs/window", params=params)
        if last is None:
            first, last = answer["first"], answer["last"]
        records = [document for document in answer["records"] if document["cursor"] <= last]
        yield b"".join(_encoded(document, lines) for document in records)
        count += len(records)
        after = records[-1]["cursor"] if records else last
        on_progress(count, (after - first + 1) / max(last - first + 1, 1))
        if not records or after >= last:
            return


def _encoded(document: dict[str, Any], lines: bool) -> bytes:
    spans = document.pop("spans", ())
    text = line(document, spans) if lines else json.dumps(document, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"
