"""The ways of edges: a row for each end, a track for each edge in a gap, a lane below for those that go far.

Owns that no two edges run along each other but those of one trunk, so that every line can be followed. In a
gap no row belongs to two: an edge whose ends can be level is drawn straight, and the other ends take odd rows
on the right side of nodes and even rows on the left side. In a gap no vertical track belongs to two, and no
lane either. So edges meet only where one crosses another at a right angle. A label stands where its edge
ends, since there it is alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from screens.board.node_layout import End, Link, Name, Rows, Side

Point = tuple[int, int]
"""Cell from the left and row from the top, from 0."""
LONGEST_LABEL = 24
_OUT, _IN = 1, 2
"""Cells between a node and a track: of an edge that leaves it, and of one that comes, with its arrow."""
_STEP = 2
"""Cells from one track to the next."""
_LEAST = 4
"""Cells of a gap between two columns."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The row in which an edge begins, and that in which it ends."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of an edge that runs up or down in a gap, from row `begin` to row `end`, as the edge goes.

    `turns` says that it comes from the left and goes back there.
    """

    track: Name
    gap: int
    begin: int
    end: int
    turns: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """How a gap is divided: its tracks, the cell behind them (where labels on the right begin), its width."""

    tracks: Mapping[Name, int]
    behind: int
    width: int


def ports(links: Sequence[Link], rows: Mapping[str, Rows]) -> dict[str, Ports]:
    """Return the rows in which each edge begins and ends."""
    found: dict[tuple[End, Name], int] = {}
    for link in sorted(links, key=lambda link: _apart(link, rows)):
        if not any(end in found for end in link.ends):
            taken = {(end.gap, row) for (end, _), row in found.items()}
            row = _level(link, rows, taken)
            if row is not None:
                found |= dict.fromkeys(link.ends, row)
    found |= _rows_apart(links, rows, found)
    return {link.edge.key: Ports(*(found[end] for end in link.ends)) for link in links}


def _rows_apart(
    links: Sequence[Link], rows: Mapping[str, Rows], found: Mapping[tuple[End, Name], int]
) -> dict[tuple[End, Name], int]:
    """Give each end a row of its own about the middle of its node, in the order of the nodes joined."""
    taken = {(end.gap, row) for (end, _), row in found.items()}
    waiting: dict[End, dict[Name, list[float]]] = {}
    for link in links:
        for (end, name), (other, _) in zip(link.ends, link.ends[::-1], strict=True):
            if (end, name) not in found:
                waiting.setdefault(end, {}).setdefault(name, []).append(rows[other.node].middle)
    apart: dict[tuple[End, Name], int] = {}
    for end, middles in waiting.items():
        odd = end.side is Side.RIGHT
        free = [row for row in rows[end.node].inner if row % 2 == odd and (end.gap, row) not in taken]
        first = (len(free) - len(middles)) // 2
        names = sorted(middles, key=lambda name: (fmean(middles[name]), name))
        apart |= {(end, name): row for row, name in zip(free[first:], names, strict=False)}
    return apart


def _apart(link: Link, rows: Mapping[str, Rows]) -> float:
    return abs(rows[link.source.node].middle - rows[link.target.node].middle)


def _level(link: Link, rows: Mapping[str, Rows], taken: set[tuple[int, int]]) -> int | None:
    """Return a row in which the edge can be straight, about the middle of both nodes."""
    if link.source.gap != link.target.gap or link.source.side is link.target.side:
        return None
    source, target = rows[link.source.node], rows[link.target.node]
    middle = (source.middle + target.middle) / 2
    common = [row for row in source.inner if row in target.inner and (link.source.gap, row) not in taken]
    return min(common, key=lambda row: abs(row - middle), default=None)


def lanes(links: Iterable[Link], rows: Mapping[str, Rows]) -> dict[str, int]:
    """Return the row below all nodes in which each edge that passes a column does so."""
    below = max((each.bottom for each in rows.values()), default=0) + 2
    far = [link.edge.key for link in links if link.source.gap != link.target.gap]
    return {key: below + index for index, key in enumerate(far)}


def segments(
    links: Iterable[Link], rows: Mapping[str, Ports], below: Mapping[str, int]
) -> dict[str, list[Segment]]:
    """Return where each edge runs up or down: nowhere, in one gap, or in two."""
    found: dict[str, list[Segment]] = {}
    for link in links:
        key, source, target = link.edge.key, link.source, link.target
        begin, end = rows[key].source, rows[key].target
        if key in below:
            lane = below[key]
            parts = [
                Segment(link.track(source), source.gap, begin, lane, turns=False),
                Segment(link.track(target), target.gap, lane, end, turns=False),
            ]
        elif begin != end:
            turns = source.side is target.side
            parts = [Segment(link.track(source), source.gap, begin, end, turns)]
        else:
            parts = []
        found[key] = parts
    return found


def gaps(links: Sequence[Link], parts: Mapping[str, Sequence[Segment]], count: int) -> list[Gap]:
    """Return how each of `count` gaps is divided; the last one has no column on its right."""
    sides = {link.track(end): link.source.side for link in links for end in (link.source, link.target)}
    divided = []
    for gap in range(count):
        back = [_IN + len(written(link)) for link in links if _comes(link, gap, Side.RIGHT)]
        on = [
            _IN + len(f"─{text}") if (text := written(link)) else _IN
            for link in links
            if _comes(link, gap, Side.LEFT)
        ]
        before, after = max(back, default=_OUT), max(on, default=_IN)
        inside: dict[Name, list[Segment]] = {}
        for part in (part for each in parts.values() for part in each if part.gap == gap):
            inside.setdefault(part.track, []).append(part)
        order = sorted(inside, key=lambda name: _rank(inside[name], sides[name]))
        tracks = {name: before + _STEP * index for index, name in enumerate(order)}
        behind = before + (_STEP * len(order) - 1 if order else 0)
        outside = behind if order else 0
        divided.append(Gap(tracks, behind, outside if gap == count - 1 else max(behind + after, _LEAST)))
    return divided


def _rank(parts: Sequence[Segment], side: Side) -> tuple[int, float]:
    """Return what puts tracks in an order with few crossings, from left to right."""
    begin, end = fmean(part.begin for part in parts), fmean(part.end for part in parts)
    if any(part.turns for part in parts):
        return 0, abs(begin - end)
    left, right = (begin, end) if side is Side.RIGHT else (end, begin)
    return (1, left) if right < left else (2, -left)


def _comes(link: Link, gap: int, side: Side) -> bool:
    return link.target.gap == gap and link.target.side is side


def written(link: Link) -> str:
    """Return the label as it is written, with a blank on both sides."""
    return f" {cut(link.edge.label)} " if link.edge.label else ""


def cut(label: str) -> str:
    """Return a label that is not longer than there is room."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
