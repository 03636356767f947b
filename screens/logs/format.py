"""Formatting of timeline records as rows and text lines. Does not import Textual."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from rich.cells import cell_len

from screens.widgets.rows import Cell, ListColumn, Piece, Row, Tone, sanitize
from svc_tui.terminal import units
from svc_tui.terminal.units import clock, duration, plural

Document = Mapping[str, Any]

COLUMNS = (
    ListColumn("time", 12), ListColumn("", 6), ListColumn("resource", 14), ListColumn("", 12),
    ListColumn("", 24, grow=True), ListColumn("", 21), ListColumn("request", 8, right=True),
)  # fmt: skip
NARROW = (
    ListColumn("time", 12), ListColumn("", 6), ListColumn("resource", 12), ListColumn("", 20, grow=True),
)  # fmt: skip
"""Columns of narrow screens: duration and attributes are part of the text."""
MAX_MARKED = 1000
"""Maximum characters of a cell in which matches are highlighted."""
MIN_DURATION_CELLS = 32
"""Minimum text width for showing the duration before the request."""
WIDE_CELLS = 112
"""Minimum screen width for `COLUMNS`."""
_BADGES: dict[str, Tone] = {
    "TRACE": "dim", "DEBUG": "notice", "INFO": "good", "WARN": "warn", "ERROR": "bad", "FATAL": "bad",
    "STDOUT": "notice", "STDERR": "warn",
}  # fmt: skip
_STATUS: dict[int, Tone] = {2: "good", 3: "notice", 4: "warn", 5: "bad"}
_METHODS: dict[str, Tone] = {
    "GET": "dim", "HEAD": "dim", "OPTIONS": "dim",
    "POST": "violet", "PUT": "yellow", "PATCH": "yellow", "DELETE": "orange",
}  # fmt: skip
_QUIET = frozenset({"aborted", "client-gone", "stopping"})
_BAD = frozenset({"ERROR", "FATAL"})
_GAP: Piece = ("  ", "")
_ATTRIBUTES = 400
"""Maximum characters of formatted attributes."""


def row(
    document: Document,
    mounted: Sequence[Document] = (),
    *,
    room: int = 0,
    today: date | None = None,
    search: str = "",
) -> Row:
    """Return the row of a record for `COLUMNS`, with its cursor as key.

    If `room` is not 0, it is the text width on a narrow screen, and the row is for `NARROW`. `mounted` has
    the spans that a request called through mounts, innermost first. A request is shown at its end, so that
    times ascend. A record that is not of `today` shows its date instead of seconds. Matches of `search` are
    highlighted.
    """
    request = document["request_id"]
    is_request = document["kind"] == "request"
    parts = _request_cells(document, mounted) if is_request else _log_cells(document)
    sign, route, outcome, text, usage = parts
    if room and is_request:
        text = _narrow(outcome, text, usage, room)
    if search:
        outcome, text, usage = (highlight(cell, search) for cell in (outcome, text, usage))
    time_ns = began(document) + (document["wall_ns"] if is_request else 0)
    at = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).astimezone()
    shown = clock(time_ns) if today is None or at.date() == today else f"{at:%m-%d  %H:%M}"
    time: Cell = ((shown, "dim"),)
    cells: tuple[Cell, ...] = (time, sign, route, text)
    if not room:
        cells = (time, sign, route, outcome, text, usage, ((request[-8:], "dim"),))
    return Row(document["cursor"], cells)


def _narrow(outcome: Cell, request: Cell, usage: Cell, room: int) -> Cell:
    """Return duration and request in one cell, followed by as many of the other numbers as fit."""
    code, wall = outcome
    text: Cell = (code, wall, _GAP, *request)
    parts = usage[0][0].split("  ")
    if room < MIN_DURATION_CELLS:
        text, parts = (code, (" ", ""), *request), [wall[0], *parts]
    free = room - sum(cell_len(sanitize(piece)) for piece, _ in text)
    fitting = [f"  {part.strip()}" for part in parts if part.strip()]
    while fitting and sum(map(len, fitting)) > free:
        fitting.pop()
    return (*text, ("".join(fitting), "dim"))


def highlight(cell: Cell, search: str) -> Cell:
    """Return a cell with all case-insensitive matches highlighted."""
    pieces: list[Piece] = []
    at = 0
    text_of_cell = "".join(text for text, _ in cell)[:MAX_MARKED]
    edges = [edge for match in _pattern(search).finditer(text_of_cell) for edge in match.span()]
    for text, tone in cell:
        end = at + len(text)
        inside = edges[bisect_right(edges, at) : bisect_left(edges, end)]
        for first, last in pairwise((at, *inside, end)):
            is_match = bisect_right(edges, first) % 2
            pieces.append((text[first - at : last - at], "match" if is_match else tone))
        at = end
    return tuple(pieces)


def line(document: Document, mounted: Sequence[Document] = ()) -> str:
    """Return a record as one complete text line."""
    if document["kind"] == "request":
        _, route, outcome, request, usage = _request_cells(document, mounted)
        cells: tuple[Cell, ...] = route, ((f"{document['method']} ", ""), *request), (*outcome, *usage)
    else:
        parts = document["body"].rstrip("\n"), _format_attributes(document.get("attributes", {}), None)
        cells = (badge(document),), ((document["resource"], ""),), *(((text, ""),) for text in parts)
    texts = ["".join(text for text, _ in cell) for cell in cells]
    return "  ".join(sanitize(text) for text in (document["time"], *texts, document["request_id"]) if text)


def removed_row(cursor: int) -> Row:
    """Return the row of a record that was deleted meanwhile."""
    return Row(cursor, ((("deleted: the timeline retains 7 days and at most 256 MiB", "dim"),),))


def day(time_ns: int) -> str:
    """Return the date of a time; `time_ns` is in nanoseconds of the Unix epoch."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).astimezone():%Y-%m-%d}"


def size(count: int | None) -> str:
    """Return a number of bytes in at most 8 characters; "" if it is unknown."""
    return units.size(count) if count is not None else ""


def usage_text(document: Document) -> str:
    """Return CPU time and memory of a request in 21 cells."""
    compute = f"{duration(document['compute_ns'])} cpu" if document["compute_ns"] else ""
    return f"{compute:>11}  {size(document['peak_memory']):>8}"


def status(code: int) -> Piece:
    """Return the status of a response in 3 cells."""
    return f"{code:>3}", _STATUS.get(code // 100, "bold")


def method(name: str) -> Piece:
    """Return the method of a request in 6 cells; those that change data have a hue."""
    return f"{sanitize(name)[:6]:<6}", _METHODS.get(name, "bold")


def badge(document: Document) -> Piece:
    """Return the level badge of a log record in 6 cells."""
    kind = document["kind"]
    name = kind.upper() if kind in ("stdout", "stderr") else document["level"]
    return f"{name:<6}", _BADGES.get(name, "bold")


def began(document: Document) -> int:
    """Return the start of a record in nanoseconds of the Unix epoch."""
    seconds, _, fraction = document["time"].removesuffix("Z").partition(".")
    return _epoch(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def _request_cells(document: Document, mounted: Sequence[Document]) -> tuple[Cell, ...]:
    """Return badge, route, outcome, request and usage cells; usage is that of the innermost span."""
    inner = mounted[0] if mounted else document
    route = " → ".join(span["resource"] or "–" for span in (document, *reversed(mounted)))
    request: Cell = ((document["target"], ""),)
    if code := inner["code"]:
        tone: Tone = "dim" if code in _QUIET else "bad" if document["status"] >= 500 else "warn"
        request = ((f"{code} ", tone), *request)
    outcome: Cell = (status(document["status"]), (f"  {duration(document['wall_ns']):>7}", ""))
    name, hue = method(document["method"])
    sign: Piece = (name, "bad" if document["level"] in _BAD else hue)
    return (sign,), ((route, "teal"),), outcome, request, ((usage_text(inner), "dim"),)


def _log_cells(document: Document) -> tuple[Cell, ...]:
    """Return the cells of a log record like those of a request; the text has its attributes."""
    tone: Tone = "bad" if document["level"] in _BAD else ""
    text, more = document["body"].rstrip("\n"), ""
    if document["kind"] == "stderr":
        text, _, frames = text.partition("\n")
        more = f"… {plural(frames.count(chr(10)) + 1, 'more line')}" if frames else ""
        tone = "dim" if "/node_modules/" in text else tone
    attributes: Piece = (more or _format_attributes(document.get("attributes", {})), "dim")
    return (badge(document),), ((document["resource"], "teal"),), (), ((text, tone), _GAP, attributes), ()


def _format_attributes(attributes: Mapping[str, str], max_length: int | None = _ATTRIBUTES) -> str:
    """Return `key=value key="a value"`, truncated to about `max_length` characters."""
    text = ""
    for key, value in attributes.items():
        if max_length is not None and len(text) > max_length:
            break
        truncated = value[:max_length]
        plain = truncated and not any(character in truncated for character in ' \t\n"=')
        text += f"{key}={truncated if plain else json.dumps(truncated, ensure_ascii=False)} "
    return text.rstrip(" ")


@lru_cache(maxsize=16)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text), re.IGNORECASE)


@lru_cache(maxsize=16)
def _epoch(seconds: str) -> int:
    return int(datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp())
