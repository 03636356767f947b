"""One line for each record of the timeline, which comes as docs/logs.md documents it. Imports no Textual."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Any

from rich.cells import cell_len

from screens.widgets.columns import Column, sanitize
from screens.widgets.row_source import Cell, Piece, Row, Tone

Document = Mapping[str, Any]

COLUMNS = (
    Column("time", 12),
    Column("", 6),
    Column("resource", 14),
    Column("", 24, grow=True),
    Column("", 35),
    Column("request", 8, right=True),
)
NARROW = (Column("time", 12), Column("", 6), Column("resource", 12), Column("", 20, grow=True))
"""Where there is no room for those: what a request took stands about the text, attributes behind it."""
MOST_MARKED = 1000
"""Characters of a cell in which what is sought stands out: more than a line shows."""
ROOM_FOR_TIME = 32
"""Cells of a text from which what a request took may stand before what was asked."""
WIDE = 112
"""Cells from which a screen has room for `COLUMNS`."""
_BADGES: dict[str, Tone] = {
    "TRACE": "dim",
    "DEBUG": "notice",
    "INFO": "good",
    "WARN": "warn",
    "ERROR": "bad",
    "FATAL": "bad",
    "STDOUT": "notice",
    "STDERR": "warn",
}
_STATUS: dict[int, Tone] = {2: "good", 3: "notice", 4: "warn", 5: "bad"}
_QUIET = frozenset({"client-gone", "stopping"})
_BAD = frozenset({"ERROR", "FATAL"})
_GAP: Piece = ("  ", "")
_ATTRIBUTES = 400
"""Characters of attributes that are put together: more than a line has."""


def row(
    document: Document,
    below: Sequence[Document] = (),
    zone: tzinfo | None = None,
    *,
    room: int = 0,
    today: date | None = None,
    sought: str = "",
) -> Row:
    """Return the line of a record, with the cells of `COLUMNS`, and its cursor as key.

    With `room`, the cells of the text on a narrow screen, it has those of `NARROW`. `below` are the spans
    that a request called through mounts, innermost first. The time is that of `zone`, or of this machine; a
    request's is when it was over, so that times go up. One that is not `today` has its date in place of
    seconds. Where `sought` is found, it stands out.
    """
    request = document["request_id"]
    cells = _request(document, below) if document["kind"] == "request" else _said(document)
    when: Cell = ((_when(_shown_at(document), zone, today), "dim"),)
    sign, way, said, more = cells
    if room:
        said = _narrow(said, more, room) if document["kind"] == "request" else (*said, _GAP, *more)
    if sought:
        said, more = marked(said, sought), marked(more, sought)
    if room:
        return Row(document["cursor"], (when, sign, way, said))
    return Row(document["cursor"], (when, sign, way, said, more, ((request[-8:], "dim"),)))


def _narrow(asked: Cell, took: Cell, room: int) -> Cell:
    """Return what a request took and asked in one cell: of the numbers at its end those that fit, whole."""
    code, wall, spent = took
    text: Cell = (code, wall, _GAP, *asked)
    parts = spent[0].split("  ")
    if room < ROOM_FOR_TIME:
        text, parts = (code, (" ", ""), *asked), [wall[0], *parts]
    free = room - sum(cell_len(sanitize(piece)) for piece, _ in text)
    more = [f"  {part.strip()}" for part in parts if part.strip()]
    while more and sum(map(len, more)) > free:
        more.pop()
    return (*text, ("".join(more), "dim"))


def marked(cell: Cell, sought: str) -> Cell:
    """Return a cell in which every place of a text stands out, in capitals or not."""
    pieces: list[Piece] = []
    at = 0
    whole = "".join(text for text, _ in cell)[:MOST_MARKED]
    edges = [edge for match in _pattern(sought).finditer(whole) for edge in match.span()]
    for text, tone in cell:
        end = at + len(text)
        inside = edges[bisect_right(edges, at) : bisect_left(edges, end)]
        for first, last in pairwise((at, *inside, end)):
            found = bisect_right(edges, first) % 2
            pieces.append((text[first - at : last - at], "found" if found else tone))
        at = end
    return tuple(pieces)


def line(document: Document, below: Sequence[Document] = ()) -> str:
    """Return a record as one line of a file: as `row`, with the whole time and nothing cut."""
    if document["kind"] == "request":
        cells = _request(document, below)
    else:
        said = document["body"].rstrip("\n"), _joined(document.get("attributes", {}), None)
        cells = (badge(document),), ((document["resource"], ""),), *(((text, ""),) for text in said)
    texts = ["".join(text for text, _ in cell) for cell in cells]
    return "  ".join(sanitize(text) for text in (document["time"], *texts, document["request_id"]) if text)


def removed(cursor: int) -> Row:
    """Return the line of a record that is no longer kept."""
    said: Cell = (("removed: the timeline keeps the last 7 days, and 256 MiB at most", "dim"),)
    return Row(cursor, ((), (), (), said, (), ()))


def _when(time_ns: int, zone: tzinfo | None, today: date | None) -> str:
    at = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).astimezone(zone)
    return clock(time_ns, zone) if today is None or at.date() == today else f"{at:%m-%d  %H:%M}"


def clock(time_ns: int, zone: tzinfo | None = None) -> str:
    """Return the time of day with milliseconds; `time_ns` is of the Unix epoch."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds, zone)}.{rest // 1_000_000:03}"


def day(time_ns: int, zone: tzinfo | None = None) -> str:
    """Return the date of a time, as `clock` has its time of day."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).astimezone(zone):%Y-%m-%d}"


def duration(nanoseconds: int) -> str:
    """Return a duration in at most 7 characters: `0.8 ms`, `12 ms`, `30.0 s`, `12 min`, `3.5 h`."""
    milliseconds = nanoseconds / 1e6
    if milliseconds < 999.5:
        return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1e3
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def size(count: int | None) -> str:
    """Return bytes in at most 8 characters: `312 B`, `0.9 MiB`; nothing where it is not known."""
    if count is None:
        return ""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1024:.0f} KiB" if count < 100 << 10 else f"{count / (1 << 20):.1f} MiB"


def status(code: int) -> Piece:
    """Return the status of an answer, in 3 cells."""
    return f"{code:>3}", _STATUS.get(code // 100, "bold")


def badge(document: Document) -> Piece:
    """Return the badge of a record that says something, in 6 cells."""
    kind = document["kind"]
    name = kind.upper() if kind in ("stdout", "stderr") else document["level"]
    return f"{name:<6}", _BADGES.get(name, "bold")


def began(document: Document) -> int:
    """Return when a record is of, in nanoseconds of the Unix epoch."""
    whole, _, rest = document["time"].removesuffix("Z").partition(".")
    return _epoch(whole) * 1_000_000_000 + int(rest.ljust(9, "0"))


def _request(document: Document, below: Sequence[Document]) -> tuple[Cell, ...]:
    """Return the badge, the way, what was asked and what it took; the innermost span knows what it took."""
    inner = below[0] if below else document
    way = " → ".join(span["resource"] or "–" for span in (document, *reversed(below)))
    asked: Cell = ((document["method"], "bold"), (f" {document['target']}", ""))
    if code := inner["code"]:
        asked = ((f"{code} ", "dim" if code in _QUIET else "bad"), *asked)
    compute = f"{duration(inner['compute_ns'])} cpu" if inner["compute_ns"] else ""
    took: Cell = (
        status(document["status"]),
        (f"  {duration(document['wall_ns']):>7}", ""),
        (f"  {compute:>11}  {size(inner['peak_memory']):>8}", "dim"),
    )
    sign: Piece = ("REQ", "bad" if document["level"] in _BAD else "dim")
    return (sign,), ((way, "accent"),), asked, took


def _said(document: Document) -> tuple[Cell, ...]:
    """Return the badge, the Resource, what was said and its attributes."""
    tone: Tone = "bad" if document["level"] in _BAD else ""
    said = (document["body"].rstrip("\n"), tone)
    attributes: Piece = (_joined(document.get("attributes", {})), "dim")
    return (badge(document),), ((document["resource"], "accent"),), (said,), (attributes,)


def _joined(attributes: Mapping[str, str], most: int | None = _ATTRIBUTES) -> str:
    """Return `key=value key="a value"`, about `most` characters; a value that would run on is quoted."""
    joined = ""
    for key, value in attributes.items():
        if most is not None and len(joined) > most:
            break
        cut = value[:most]
        plain = cut and not any(character in cut for character in ' \t\n"=')
        joined += f"{key}={cut if plain else json.dumps(cut, ensure_ascii=False)} "
    return joined.rstrip(" ")


def _shown_at(document: Document) -> int:
    """Return when the line stands in time: a request's when it was over."""
    return began(document) + (document["wall_ns"] if document["kind"] == "request" else 0)


@lru_cache(maxsize=16)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text), re.IGNORECASE)


@lru_cache(maxsize=16)
def _epoch(whole: str) -> int:
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())


@lru_cache(maxsize=16)
def _second(seconds: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).strftime("%H:%M:%S")
