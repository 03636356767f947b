"""Edge routing: a row for each edge end, a vertical track in each gap, and a lane below for long edges.

No two edges overlap, except edges of the same trunk, so every line can be followed. Each row of a gap belongs
to one end: edges with level ends are straight; other ends use odd rows on the right side of nodes and even
rows on the left side. Each track and each lane belongs to one edge or trunk. So edges meet only at
right-angle crossings. A label is placed at the target end, where its edge is alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from screens.board.node_layout import EdgeEnds, End, Rows, Side, TrackOwner

Point = tuple[int, int]
"""Column and row of a cell, from 0."""
MAX_LABEL = 24
_OUT, _IN = 1, 2
"""Cells between a node and a track: at the source, and at the target with its arrow."""
_STEP = 2
"""Cells between two tracks."""
_MIN_GAP_WIDTH = 4
"""Minimum width of a gap in cells."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The rows in which an edge starts and ends."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class VerticalSegment:
    """A vertical part of an edge in a gap, from row `begin` to row `end` in the direction of the edge.

    `turns` is True if it comes from the left and returns there.
    """

    track: TrackOwner
    gap: int
    begin: int
    end: int
    turns: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """The layout of a gap: its tracks, the cell after them (labels on the right start there), its width."""

    tracks: Mapping[TrackOwner, int]
    tracks_end: int
    width: int


def assign_ports(links: Sequence[EdgeEnds], rows: Mapping[str, Rows]) -> dict[str, Ports]:
    """Return the rows in which each edge starts and ends."""
    end_rows: dict[tuple[End, TrackOwner], int] = {}
    for link in sorted(links, key=lambda link: _vertical_distance(link, rows)):
        if not any(end in end_rows for end in link.ends):
            used = {(end.gap, row) for (end, _), row in end_rows.items()}
            row = _straight_row(link, rows, used)
            if row is not None:
                end_rows |= dict.fromkeys(link.ends, row)
    end_rows |= _spread_rows(links, rows, end_rows)
    return {link.edge.key: Ports(*(end_rows[end] for end in link.ends)) for link in links}


def _spread_rows(
    links: Sequence[EdgeEnds], rows: Mapping[str, Rows], end_rows: Mapping[tuple[End, TrackOwner], int]
) -> dict[tuple[End, TrackOwner], int]:
    """Assign each remaining end a row near the middle of its node, in the order of the connected nodes."""
    used = {(end.gap, row) for (end, _), row in end_rows.items()}
    unassigned: dict[End, dict[TrackOwner, list[float]]] = {}
    for link in links:
        for (end, name), (other, _) in zip(link.ends, link.ends[::-1], strict=True):
            if (end, name) not in end_rows:
                unassigned.setdefault(end, {}).setdefault(name, []).append(rows[other.node].middle)
    assigned: dict[tuple[End, TrackOwner], int] = {}
    for end, middles in unassigned.items():
        odd = end.side is Side.RIGHT
        free = [row for row in rows[end.node].inner if row % 2 == odd and (end.gap, row) not in used]
        first = (len(free) - len(middles)) // 2
        names = sorted(middles, key=lambda name: (fmean(middles[name]), name))
        assigned |= {(end, name): row for row, name in zip(free[first:], names, strict=False)}
    return assigned


def _vertical_distance(link: EdgeEnds, rows: Mapping[str, Rows]) -> float:
    return abs(rows[link.source.node].middle - rows[link.target.node].middle)


def _straight_row(link: EdgeEnds, rows: Mapping[str, Rows], used: set[tuple[int, int]]) -> int | None:
    """Return a row in which the edge can be straight, near the middle of both nodes."""
    if link.source.gap != link.target.gap or link.source.side is link.target.side:
        return None
    source, target = rows[link.source.node], rows[link.target.node]
    middle = (source.middle + target.middle) / 2
    common = [row for row in source.inner if row in target.inner and (link.source.gap, row) not in used]
    return min(common, key=lambda row: abs(row - middle), default=None)


def assign_lanes(links: Iterable[EdgeEnds], rows: Mapping[str, Rows]) -> dict[str, int]:
    """Return the lane, a row below all nodes, of each edge that passes a column."""
    first_lane = max((node_rows.bottom for node_rows in rows.values()), default=0) + 2
    long_edges = [link.edge.key for link in links if link.source.gap != link.target.gap]
    return {key: first_lane + index for index, key in enumerate(long_edges)}


def vertical_segments(
    links: Iterable[EdgeEnds], rows: Mapping[str, Ports], lanes: Mapping[str, int]
) -> dict[str, list[VerticalSegment]]:
    """Return the vertical parts of each edge: none, one, or two."""
    segments: dict[str, list[VerticalSegment]] = {}
    for link in links:
        key, source, target = link.edge.key, link.source, link.target
        begin, end = rows[key].source, rows[key].target
        if key in lanes:
            lane = lanes[key]
            edge_segments = [
                VerticalSegment(link.track(source), source.gap, begin, lane, turns=False),
                VerticalSegment(link.track(target), target.gap, lane, end, turns=False),
            ]
        elif begin != end:
            turns = source.side is target.side
            edge_segments = [VerticalSegment(link.track(source), source.gap, begin, end, turns)]
        else:
            edge_segments = []
        segments[key] = edge_segments
    return segments


def divide_gaps(
    links: Sequence[EdgeEnds], segments: Mapping[str, Sequence[VerticalSegment]], count: int
) -> list[Gap]:
    """Return the layout of each of `count` gaps; the last one has no column on its right."""
    sides = {link.track(end): link.source.side for link in links for end in (link.source, link.target)}
    gaps = []
    for gap in range(count):
        left_labels = [_IN + len(label_text(link)) for link in links if _ends_in(link, gap, Side.RIGHT)]
        right_labels = [
            _IN + len(f"─{text}") if (text := label_text(link)) else _IN
            for link in links
            if _ends_in(link, gap, Side.LEFT)
        ]
        left_margin, right_margin = max(left_labels, default=_OUT), max(right_labels, default=_IN)
        by_track: dict[TrackOwner, list[VerticalSegment]] = {}
        for segment in chain.from_iterable(segments.values()):
            if segment.gap == gap:
                by_track.setdefault(segment.track, []).append(segment)
        order = sorted(by_track, key=lambda name: _rank(by_track[name], sides[name]))
        tracks = {name: left_margin + _STEP * index for index, name in enumerate(order)}
        tracks_end = left_margin + (_STEP * len(order) - 1 if order else 0)
        width = max(tracks_end + right_margin, _MIN_GAP_WIDTH)
        if gap == count - 1:
            width = tracks_end if order else 0
        gaps.append(Gap(tracks, tracks_end, width))
    return gaps


def _rank(segments: Sequence[VerticalSegment], side: Side) -> tuple[int, float]:
    """Return a sort key that orders tracks from left to right with few crossings."""
    begin, end = fmean(segment.begin for segment in segments), fmean(segment.end for segment in segments)
    if any(segment.turns for segment in segments):
        return 0, abs(begin - end)
    left, right = (begin, end) if side is Side.RIGHT else (end, begin)
    return (1, left) if right < left else (2, -left)


def _ends_in(link: EdgeEnds, gap: int, side: Side) -> bool:
    return link.target.gap == gap and link.target.side is side


def label_text(link: EdgeEnds) -> str:
    """Return the label with a blank on both sides; "" without a label."""
    return f" {truncate_label(link.edge.label)} " if link.edge.label else ""


def truncate_label(label: str) -> str:
    """Return a label, truncated to the maximum length."""
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
