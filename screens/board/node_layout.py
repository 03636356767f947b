"""Node layout: the order of the nodes in each column, and their rows.

Horizontal positions follow from the edge routing. Columns without nodes are omitted, so column indexes are
consecutive.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from screens.board.graph import Edge, Graph

_SWEEPS = 4
"""Passes that order the nodes by their neighbors on the left, then on the right."""


class Side(Enum):
    """The side of a node where an edge starts or ends."""

    LEFT = -1
    RIGHT = 0


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge: the node, its side, and the gap there (gap 0 is to the right of column 0)."""

    node: str
    side: Side
    gap: int


TrackOwner = tuple[str, ...]
"""The owner of a row at a node and of a track in a gap: one edge, or a trunk of several."""


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """An edge and its ends. An edge with both ends in one gap stays in that gap."""

    edge: Edge
    source: End
    target: End

    @property
    def ends(self) -> tuple[tuple[End, TrackOwner], tuple[End, TrackOwner]]:
        """Both ends with their owner: the edge, or the trunk that it shares with others."""
        own = (self.edge.key,)
        return (
            (self.source, self._trunk(self.source) if self.edge.trunk == "source" else own),
            (self.target, self._trunk(self.target) if self.edge.trunk == "target" else own),
        )

    def _trunk(self, end: End) -> TrackOwner:
        return self.edge.trunk, end.node, end.side.name

    def track(self, end: End) -> TrackOwner:
        """Return the owner of the track used in the gap of an end."""
        names = [name for node_end, name in self.ends if node_end.gap == end.gap]
        return next((name for name in names if name != (self.edge.key,)), names[0])


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a node, from `top` to `bottom` border."""

    top: int
    bottom: int

    @property
    def inner(self) -> range:
        """The rows inside the border."""
        return range(self.top + 1, self.bottom)

    @property
    def middle(self) -> float:
        """The middle row, possibly fractional."""
        return (self.top + self.bottom) / 2


def order_nodes(graph: Graph) -> list[list[str]]:
    """Return the nodes of each column in an order that puts neighbors level (barycenter method)."""
    present = sorted({node.column for node in graph.nodes})
    columns = [[node.key for node in graph.nodes if node.column is column] for column in present]
    neighbors = _neighbors(graph.edges)
    for _ in range(_SWEEPS):
        for sweep in (range(1, len(columns)), range(len(columns) - 2, -1, -1), range(1, len(columns))):
            for index in sweep:
                fixed = columns[:index] if sweep.step > 0 else columns[index + 1 :]
                columns[index] = _by_barycenter(columns[index], fixed, neighbors)
    return columns


def _by_barycenter(
    column: list[str], fixed: Sequence[Sequence[str]], neighbors: Mapping[str, Sequence[str]]
) -> list[str]:
    positions_of = {
        key: index / len(other_column) for other_column in fixed for index, key in enumerate(other_column)
    }

    def weight(key: str) -> float:
        positions = [
            positions_of[neighbor] for neighbor in neighbors.get(key, ()) if neighbor in positions_of
        ]
        return fmean(positions) if positions else column.index(key) / len(column)

    return sorted(column, key=weight)


def _neighbors(edges: Iterable[Edge]) -> dict[str, list[str]]:
    neighbors: dict[str, list[str]] = {}
    for edge in edges:
        if edge.trunk != "target":
            neighbors.setdefault(edge.source, []).append(edge.target)
            neighbors.setdefault(edge.target, []).append(edge.source)
    return neighbors


def edge_ends(graph: Graph, columns: Sequence[Sequence[str]]) -> list[EdgeEnds]:
    """Return each edge with the facing sides of its nodes.

    Within a column, both ends are on the right.
    """
    column_of = {key: index for index, column in enumerate(columns) for key in column}
    links = []
    for edge in graph.edges:
        source, target = column_of[edge.source], column_of[edge.target]
        source_side = Side.RIGHT if source <= target else Side.LEFT
        target_side = Side.LEFT if source < target else Side.RIGHT
        ends = ((edge.source, source, source_side), (edge.target, target, target_side))
        links.append(EdgeEnds(edge, *(End(key, side, column + side.value) for key, column, side in ends)))
    return links


def assign_rows(
    graph: Graph, columns: Sequence[Sequence[str]], links: Sequence[EdgeEnds], row_gap: int = 0
) -> dict[str, Rows]:
    """Return the rows of each node: level with its neighbors on the left, below the previous node.

    Nodes that would overlap are spread around their position. A node starts in an even row and has as many
    inner rows as `edge_routing` needs for its ends.
    """
    heights = {node.key: node.height for node in graph.nodes}
    for key, min_rows in _min_inner_rows(links).items():
        heights[key] = max(heights[key], min_rows)
    neighbors = _neighbors(graph.edges)
    rows: dict[str, Rows] = {}
    for column in columns:
        top = min((node_rows.top for node_rows in rows.values()), default=0)
        bottom = max((node_rows.bottom for node_rows in rows.values()), default=0)
        middle = (top + bottom) / 2
        targets = []
        for key in column:
            middles = [rows[neighbor].middle for neighbor in neighbors.get(key, ()) if neighbor in rows]
            targets.append((fmean(middles) if middles else middle) - (heights[key] + 1) / 2)
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


def _min_inner_rows(links: Iterable[EdgeEnds]) -> dict[str, int]:
    """Return the minimum inner rows per node: ends on the same side use every second row."""
    ends: dict[tuple[str, Side], set[TrackOwner]] = {}
    for link in links:
        for end, name in link.ends:
            ends.setdefault((end.node, end.side), set()).add(name)
    min_rows: dict[str, int] = {}
    for (key, side), names in ends.items():
        min_rows[key] = max(2 * len(names) - (side is Side.RIGHT), min_rows.get(key, 0))
    return min_rows
