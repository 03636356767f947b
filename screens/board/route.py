"""The ways of edges: a row for each end, a track for each edge in a gap, a lane below for those that go far.

Owns that no two edges run along each other, so that every line can be followed. In a gap no row belongs to
two edges: an edge whose ends can be level is drawn straight, and the other ends take even rows on the right
side of nodes and odd rows on the left side. In a gap no vertical track belongs to two edges, and no lane
either. So edges meet only where one crosses another at a right angle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from screens.board.place import End, Link, Rows, Side

Point = tuple[int, int]
"""Cell from the left and row from the top, from 0."""
LONGEST_LABEL = 24
_BEFORE = 2
"""Cells between a column and what is to the right of it, an arrow among them."""
_AFTER = 2
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

    key: str
    gap: int
    begin: int
    end: int
    turns: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """How a gap is divided: cells before the first track (labels and arrows), its tracks, its width."""

    before: int
    tracks: Mapping[str, int]
    width: int


def ports(links: Sequence[Link], rows: Mapping[str, Rows]) -> dict[str, Ports]:
    """Return the rows in which each edge begins and ends."""
    taken: set[tuple[int, int]] = set()
    straight: dict[str, int] = {}
    for link in sorted(links, key=lambda link: _apart(link, rows)):
        row = _level(link, rows, taken)
        if row is not None:
            straight[link.edge.key] = row
            taken.add((link.source.gap, row))
    apart = _rows_apart([link for link in links if link.edge.key not in straight], rows, taken)
    level = {key: Ports(row, row) for key, row in straight.items()}
    return level | {key: Ports(begin, end) for key, (begin, end) in apart.items()}


def _rows_apart(
    links: Sequence[Link], rows: Mapping[str, Rows], taken: set[tuple[int, int]]
) -> dict[str, list[int]]:
    """Give each end a row of its own about the middle of its node, in the order of the nodes joined."""
    found = {link.edge.key: [0, 0] for link in links}
    waiting: dict[End, list[tuple[float, str, int]]] = {}
    for link in links:
        for index, (end, other) in enumerate(((link.source, link.target), (link.target, link.source))):
            waiting.setdefault(end, []).append((rows[other.node].middle, link.edge.key, index))
    for end, entries in waiting.items():
        odd = end.side is Side.LEFT
        free = [row for row in rows[end.node].inner if row % 2 == odd and (end.gap, row) not in taken]
        first = (len(free) - len(entries)) // 2
        for row, (_, key, index) in zip(free[first:], sorted(entries), strict=False):
            found[key][index] = row
    return found


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
                Segment(key, source.gap, begin, lane, turns=False),
                Segment(key, target.gap, lane, end, turns=False),
            ]
        elif begin != end:
            parts = [Segment(key, source.gap, begin, end, turns=source.side is target.side)]
        else:
            parts = []
        found[key] = parts
    return found


def gaps(links: Sequence[Link], parts: Mapping[str, Sequence[Segment]], count: int) -> list[Gap]:
    """Return how each of `count` gaps is divided; the last one has no column on its right."""
    sides = {link.edge.key: link.source.side for link in links}
    divided = []
    for gap in range(count):
        labels = [cut(link.edge.label) for link in links if _labelled(link) == gap]
        before = _BEFORE + max((len(label) + 2 for label in labels if label), default=0)
        inside = [part for each in parts.values() for part in each if part.gap == gap]
        order = sorted(inside, key=lambda part: _rank(part, sides[part.key]))
        tracks = {part.key: before + _STEP * index for index, part in enumerate(order)}
        wide = before + (_STEP * len(order) - 1 if order else 0) + _AFTER
        outside = wide - _AFTER if order else 0
        divided.append(Gap(before, tracks, outside if gap == count - 1 else max(wide, _LEAST)))
    return divided


def _rank(part: Segment, side: Side) -> tuple[int, int]:
    """Return what puts tracks in an order with few crossings, from left to right."""
    if part.turns:
        return 0, abs(part.begin - part.end)
    left, right = (part.begin, part.end) if side is Side.RIGHT else (part.end, part.begin)
    return (1, left) if right < left else (2, -left)


def _labelled(link: Link) -> int:
    return link.source.gap if link.source.side is Side.RIGHT else link.target.gap


def labelled_at(link: Link, rows: Ports) -> tuple[int, int]:
    """Return the gap and the row in which the label stands, at the gap's left."""
    return _labelled(link), rows.source if link.source.side is Side.RIGHT else rows.target


def cut(label: str) -> str:
    """Return a label that is not longer than there is room."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
