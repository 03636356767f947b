"""Layout and drawing of the Board: positions of nodes, routes of edges, and the terminal cells they fill.

Pure and deterministic. Columns without nodes are omitted, so column indexes are consecutive; horizontal
positions follow from the routes.

No two edges overlap, except edges of the same trunk, so every line can be followed. Each row of a gap belongs
to one end: edges with level ends are straight; other ends use odd rows on the right side of nodes and even
rows on the left side. Each track and each lane belongs to one edge or trunk. So edges meet only at
right-angle crossings. A label is placed at the target end, where its edge is alone.

A cell stores in which directions its line continues. Lines that meet in a cell are combined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import chain, pairwise, product
from statistics import fmean
from typing import Literal, NamedTuple


class BoardColumn(IntEnum):
    """The columns of the Board, from left to right."""

    FRONT_ENDS = 0
    DYNAMIC = 1
    DOORS = 2


@dataclass(frozen=True, slots=True)
class Node:
    """A resource or a Door. Its text has `width` cells and `height` rows inside the border."""

    key: str
    column: BoardColumn
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A mount, or the use of a Door by a resource.

    `label` is written along the edge, one cell per character. Edges of one `trunk` share their route at that
    end: edges with the same source until they part; edges with the same target, which have no labels, after
    they have met. The latter do not affect node positions, so they can appear and disappear.
    """

    key: str
    source: str
    target: str
    label: str = ""
    trunk: Literal["", "source", "target"] = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges with unique keys. Each edge connects two of the nodes."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()


_SWEEPS = 4
"""Passes that order the nodes by their neighbors on the left, then on the right."""
MAX_LABEL = 24
_OUT, _IN = 1, 2
"""Cells between a node and a track: at the source, and at the target with its arrow."""
_STEP = 2
"""Cells between two tracks."""
_MIN_GAP_WIDTH = 4
"""Minimum width of a gap in cells."""
Point = tuple[int, int]
"""Column and row of a cell, from 0."""


class Side(Enum):
    """The side of a node where an edge starts or ends."""

    LEFT = -1
    RIGHT = 0


class End(NamedTuple):
    """One end of an edge: the node, its side, and the gap there (gap 0 is to the right of column 0)."""

    node: str
    side: Side
    gap: int


TrackOwner = tuple[str, ...]
"""The owner of a row at a node and of a track in a gap: one edge, or a trunk of several."""
OwnedEnd = tuple[End, TrackOwner]


@dataclass(frozen=True, slots=True)
class Link:
    """An edge and its ends. An edge with both ends in one gap stays in that gap."""

    edge: Edge
    source: End
    target: End

    @property
    def ends(self) -> tuple[OwnedEnd, OwnedEnd]:
        """Both ends with their owner: the edge, or the trunk that it shares with others."""
        trunk, own = self.edge.trunk, (self.edge.key,)
        source = (trunk, self.source.node, self.source.side.name) if trunk == "source" else own
        target = (trunk, self.target.node, self.target.side.name) if trunk == "target" else own
        return (self.source, source), (self.target, target)

    def track(self, end: End) -> TrackOwner:
        """Return the owner of the track used in the gap of an end."""
        names = [name for node_end, name in self.ends if node_end.gap == end.gap]
        return next((name for name in names if name != (self.edge.key,)), names[0])

    @property
    def label(self) -> str:
        """The label, truncated to the maximum length, with a blank on both sides; "" without a label."""
        label = self.edge.label
        if len(label) > MAX_LABEL:
            label = f"{label[: MAX_LABEL - 1]}…"
        return f" {label} " if label else ""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a node, from `top` to `bottom` border."""

    top: int
    bottom: int

    @property
    def inner(self) -> range:
        return range(self.top + 1, self.bottom)

    @property
    def middle(self) -> float:
        """The middle row, possibly fractional."""
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class VerticalSegment:
    """A vertical part of an edge in a gap, from row `begin` to row `end` in the direction of the edge.

    `turns` is True if it comes from the left and returns there.
    """

    track: TrackOwner
    gap: int
    begin: int
    end: int
    turns: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """The layout of a gap: its tracks, the cell after them (labels on the right start there), its width."""

    tracks: Mapping[TrackOwner, int]
    tracks_end: int
    width: int


def _order_nodes(graph: Graph, neighbors: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the nodes of each column in an order that puts neighbors level (barycenter method)."""
    present = sorted({node.column for node in graph.nodes})
    columns = [[node.key for node in graph.nodes if node.column is column] for column in present]
    for _ in range(_SWEEPS):
        for sweep in (range(1, len(columns)), range(len(columns) - 2, -1, -1), range(1, len(columns))):
            for index in sweep:
                column, fixed = columns[index], columns[:index] if sweep.step > 0 else columns[index + 1 :]
                places = {key: at / len(other) for other in fixed for at, key in enumerate(other)}
                weights: dict[str, float] = {}
                for at, key in enumerate(column):
                    level = [places[neighbor] for neighbor in neighbors.get(key, ()) if neighbor in places]
                    weights[key] = fmean(level) if level else at / len(column)
                columns[index] = sorted(column, key=weights.__getitem__)
    return columns


def _link(edge: Edge, column_of: Mapping[str, int]) -> Link:
    """Return an edge with the facing sides of its nodes. Within a column, both ends are on the right."""
    source, target = column_of[edge.source], column_of[edge.target]
    source_side = Side.RIGHT if source <= target else Side.LEFT
    target_side = Side.LEFT if source < target else Side.RIGHT
    begin = End(edge.source, source_side, source + source_side.value)
    return Link(edge, begin, End(edge.target, target_side, target + target_side.value))


def _assign_rows(
    graph: Graph,
    columns: Sequence[Sequence[str]],
    neighbors: Mapping[str, Sequence[str]],
    links: Iterable[Link],
    row_gap: int,
) -> dict[str, Rows]:
    """Return the rows of each node: level with its neighbors on the left, below the previous node.

    Nodes that would overlap are spread around their position. A node starts in an even row and has enough
    inner rows for its ends: those on the same side use every second row.
    """
    heights = {node.key: node.height for node in graph.nodes}
    owners: dict[tuple[str, Side], set[TrackOwner]] = {}
    for end, name in chain.from_iterable(link.ends for link in links):
        owners.setdefault((end.node, end.side), set()).add(name)
    for (key, side), names in owners.items():
        heights[key] = max(heights[key], 2 * len(names) - (side is Side.RIGHT))
    rows: dict[str, Rows] = {}
    for column in columns:
        top = min((node_rows.top for node_rows in rows.values()), default=0)
        bottom = max((node_rows.bottom for node_rows in rows.values()), default=0)
        targets = []
        for key in column:
            middles = [rows[neighbor].middle for neighbor in neighbors.get(key, ()) if neighbor in rows]
            targets.append((fmean(middles) if middles else (top + bottom) / 2) - (heights[key] + 1) / 2)
        tops = _stack(targets, [heights[key] + 2 + row_gap for key in column])
        rows |= {key: Rows(top, top + heights[key] + 1) for key, top in zip(column, tops, strict=True)}
    top_row = min((node_rows.top for node_rows in rows.values()), default=0)
    return {key: Rows(node_rows.top - top_row, node_rows.bottom - top_row) for key, node_rows in rows.items()}


def _stack(targets: Sequence[float], heights: Sequence[int]) -> list[int]:
    """Return even rows for stacked nodes with a row between them, as close as possible to their targets.

    Overlapping neighbors become a block around the mean of their positions (pool adjacent violators).
    """
    offsets = [0]
    for height in heights[:-1]:
        offsets.append(offsets[-1] + height + 1 + (height + 1) % 2)
    blocks: list[list[float]] = []
    for target, offset in zip(targets, offsets, strict=False):
        blocks.append([target - offset])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    tops = [2 * round(fmean(block) / 2) for block in blocks for _ in block]
    return [top + offset for top, offset in zip(tops, offsets, strict=False)]


def _assign_ports(links: Sequence[Link], rows: Mapping[str, Rows]) -> dict[OwnedEnd, int]:
    """Return the row of each end.

    An edge that can be straight has a row near the middle of both nodes. The other ends have rows near the
    middle of their node, in the order of the connected nodes.
    """
    ports: dict[OwnedEnd, int] = {}
    used: set[tuple[int, int]] = set()
    by_slope = sorted(links, key=lambda it: abs(rows[it.source.node].middle - rows[it.target.node].middle))
    for link in by_slope:
        facing = link.source.gap == link.target.gap and link.source.side is not link.target.side
        if facing and not any(end in ports for end in link.ends):
            source, target = rows[link.source.node], rows[link.target.node]
            middle = (source.middle + target.middle) / 2
            common = [row for row in source.inner if row in target.inner]
            free = [row for row in common if (link.source.gap, row) not in used]
            if free:
                row = min(free, key=lambda row: abs(row - middle))
                ports |= dict.fromkeys(link.ends, row)
                used.add((link.source.gap, row))
    unassigned: dict[End, dict[TrackOwner, list[float]]] = {}
    for link in links:
        for (end, name), (other, _) in zip(link.ends, link.ends[::-1], strict=True):
            if (end, name) not in ports:
                unassigned.setdefault(end, {}).setdefault(name, []).append(rows[other.node].middle)
    for end, middles in unassigned.items():
        odd = end.side is Side.RIGHT
        free = [row for row in rows[end.node].inner if row % 2 == odd and (end.gap, row) not in used]
        first = (len(free) - len(middles)) // 2
        names = sorted(middles, key=lambda name: (fmean(middles[name]), name))
        ports |= {(end, name): row for row, name in zip(free[first:], names, strict=False)}
    return ports


def _divide_gaps(links: Sequence[Link], segments: Iterable[VerticalSegment], count: int) -> list[Gap]:
    """Return the layout of each of `count` gaps; the last one has no column on its right."""
    sides = {link.track(end): link.source.side for link in links for end in (link.source, link.target)}
    by_gap: list[dict[TrackOwner, list[VerticalSegment]]] = [{} for _ in range(count)]
    for segment in segments:
        by_gap[segment.gap].setdefault(segment.track, []).append(segment)
    gaps = []
    for gap, by_track in enumerate(by_gap):
        ends = [(link.target.side, len(link.label)) for link in links if link.target.gap == gap]
        left_margin = max((_IN + label for side, label in ends if side is Side.RIGHT), default=_OUT)
        labels = [label for side, label in ends if side is Side.LEFT]
        right_margin = max((_IN + label + bool(label) for label in labels), default=_IN)
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


N, E, S, W = 1, 2, 4, 8
"""Bits for the directions in which a line leaves a cell."""
UNICODE = " ╵╶╰╷│╭├╴╯─┴╮┤┬┼"
"""The character of each bit mask, 0 to 15."""
HEAVY = " ╹╺┗╻┃┏┣╸┛━┻┓┫┳╋"
"""The characters of selected items."""
DIMMED = UNICODE.replace("│", "┊").replace("─", "┈")
"""The characters of nodes that cannot be selected."""
_ARROWS = {E: "▶", W: "◀"}


class Hit(NamedTuple):
    """A node or edge in a cell, by key."""

    kind: Literal["node", "edge"]
    key: str


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of a node including its border, in cells."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Route:
    """The path of an edge: its corners, from one node's border to the other's, and its label."""

    points: tuple[Point, ...]
    label: str
    label_at: Point


class DiagramCell(NamedTuple):
    """A cell. `arrow` is E or W where an edge enters a node; `text` replaces the line character."""

    mask: int
    hit: Hit
    arrow: int = 0
    text: str = ""

    def glyph(self, glyphs: str = UNICODE) -> str:
        """Return the character of the cell in one of the glyph sets."""
        return self.text or _ARROWS.get(self.arrow) or glyphs[self.mask]


def draw_cells(boxes: Mapping[str, Box], routes: Mapping[str, Route]) -> dict[Point, DiagramCell]:
    """Return all cells that are not empty.

    At a crossing, the horizontal edge is drawn on top. A cell shared by several edges belongs to the first.
    """
    masks: dict[Point, int] = {}
    hits: dict[Point, Hit] = {}
    for key, box in boxes.items():
        hit, x, y = Hit("node", key), box.x, box.y
        right, bottom = x + box.width - 1, y + box.height - 1
        for point in product(range(x, right + 1), range(y, bottom + 1)):
            masks[point], hits[point] = 0, hit
        for point, mask in polyline(((x, y), (right, y), (right, bottom), (x, bottom), (x, y))):
            masks[point] |= mask
    arrows: dict[Point, int] = {}
    for key, route in routes.items():
        for point, mask in route_masks(route).items():
            if mask == E | W and masks.get(point) == N | S:
                masks[point], hits[point] = mask, Hit("edge", key)
            elif mask != N | S or masks.get(point) != E | W:
                masks[point] = masks.get(point, 0) | mask
                hits.setdefault(point, Hit("edge", key))
        arrows |= dict([_arrow(route)])
    cells = {point: DiagramCell(mask, hits[point]) for point, mask in masks.items()}
    for point, ahead in arrows.items():
        cells[point] = cells[point]._replace(arrow=ahead)
    for route in routes.values():
        x, y = route.label_at
        for index, character in enumerate(route.label):
            cells[x + index, y] = cells[x + index, y]._replace(text=character)
    return cells


def route_masks(route: Route) -> dict[Point, int]:
    """Return the mask of each cell of one edge, without the edges that share its cells."""
    before, ahead = _arrow(route)
    masks: dict[Point, int] = {before: ahead}
    for point, direction in polyline((*route.points[:-1], before)):
        masks[point] = masks.get(point, 0) | direction
    return masks


def _arrow(route: Route) -> tuple[Point, int]:
    """Return the cell before the target node and the direction of the arrow."""
    (from_x, _), (x, y) = route.points[-2:]
    return ((x - 1, y), E) if from_x < x else ((x + 1, y), W)


def polyline(points: Sequence[Point]) -> Iterator[tuple[Point, int]]:
    """Yield the cells of a polyline with their directions; corners are yielded twice."""
    for begin, end in pairwise(points):
        dx, dy = ((to > at) - (to < at) for at, to in zip(begin, end, strict=True))
        ahead, back = {(1, 0): (E, W), (-1, 0): (W, E), (0, 1): (S, N), (0, -1): (N, S)}[dx, dy]
        x, y = begin
        while (x, y) != end:
            yield (x, y), ahead
            x, y = x + dx, y + dy
            yield (x, y), back


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """A graph with positions in cells, from the top left corner.

    `boxes` has the rectangle of each node including its border, `routes` the path of each edge, and `cells`
    all cells that are not empty.
    """

    width: int
    height: int
    boxes: Mapping[str, Box]
    routes: Mapping[str, Route]
    cells: Mapping[Point, DiagramCell]

    def hit(self, x: int, y: int) -> Hit | None:
        """Return the node or edge in a cell; for crossing edges, the first."""
        cell = self.cells.get((x, y))
        return cell.hit if cell is not None else None


def layout(graph: Graph, spread: int = 0, row_gap: int = 0) -> GraphLayout:
    """Lay out a graph.

    `spread` is added to the distance of columns, `row_gap` (an even number) to the distance of nodes.
    """
    neighbors: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.trunk != "target":
            neighbors.setdefault(edge.source, []).append(edge.target)
            neighbors.setdefault(edge.target, []).append(edge.source)
    columns = _order_nodes(graph, neighbors)
    column_of = {key: index for index, column in enumerate(columns) for key in column}
    links = [_link(edge, column_of) for edge in graph.edges]
    rows = _assign_rows(graph, columns, neighbors, links, row_gap)
    ports = _assign_ports(links, rows)
    lane = max((node_rows.bottom for node_rows in rows.values()), default=0) + 2
    segments: dict[str, list[VerticalSegment]] = {}
    for link in links:
        source, target = link.source, link.target
        begin, end = (ports[owned] for owned in link.ends)
        segments[link.edge.key] = parts = []
        if source.gap != target.gap:  # It passes a column in a lane of its own, a row below all nodes.
            parts.append(VerticalSegment(link.track(source), source.gap, begin, lane))
            parts.append(VerticalSegment(link.track(target), target.gap, lane, end))
            lane += 1
        elif begin != end:
            turns = source.side is target.side
            parts.append(VerticalSegment(link.track(source), source.gap, begin, end, turns))
    gaps = _divide_gaps(links, [*chain.from_iterable(segments.values())], len(columns))
    widths = {node.key: node.width + 2 for node in graph.nodes}
    boxes: dict[str, Box] = {}
    gap_at: list[int] = []
    x = 0
    for column, gap in zip(columns, gaps, strict=True):  # The boxes of a column have the same width.
        width = max(widths[key] for key in column)
        for key in column:
            boxes[key] = Box(x, rows[key].top, width, rows[key].bottom - rows[key].top + 1)
        gap_at.append(x + width)
        x += width + gap.width + spread
    routes = {}
    for link in links:
        begin, end = (ports[owned] for owned in link.ends)
        corners = [
            (gap_at[part.gap] + spread // 2 + gaps[part.gap].tracks[part.track], row)
            for part in segments[link.edge.key]
            for row in (part.begin, part.end)
        ]
        points = ((_border(boxes, link.source), begin), *corners, (_border(boxes, link.target), end))
        offset = spread // 2 + gaps[link.target.gap].tracks_end if link.target.side is Side.LEFT else 0
        label_at = (gap_at[link.target.gap] + offset + 1, end) if link.label else points[0]
        routes[link.edge.key] = Route(points, link.label, label_at)
    cells = draw_cells(boxes, routes)
    width = max((x for x, _ in cells), default=-1) + 1
    height = max((y for _, y in cells), default=-1) + 1
    return GraphLayout(width, height, boxes, routes, cells)


def _border(boxes: Mapping[str, Box], end: End) -> int:
    box = boxes[end.node]
    return box.x if end.side is Side.LEFT else box.x + box.width - 1
