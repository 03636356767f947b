"""Where nodes stand: the order of the nodes in each column, and the rows that each takes.

Owns no columns of cells: how wide the gaps between columns are is known when the edges are routed. Columns
without a node are left out, so columns count from 0 without holes here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from screens.board.graph import Edge, Graph

_SWEEPS = 4
"""How often the nodes are put in order by those on their left, then by those on their right."""


class Side(Enum):
    """The side of a node on which an edge begins or ends."""

    LEFT = -1
    RIGHT = 0


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge: the node, its side, and the gap that lies there (gap 0 is right of column 0)."""

    node: str
    side: Side
    gap: int


@dataclass(frozen=True, slots=True)
class Link:
    """An edge and its ends. Where the ends lie in one gap, it needs no more than that gap."""

    edge: Edge
    source: End
    target: End


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a node from `top` to `bottom`, both of its border."""

    top: int
    bottom: int

    @property
    def inner(self) -> range:
        """The rows inside the border."""
        return range(self.top + 1, self.bottom)

    @property
    def middle(self) -> float:
        """The middle, perhaps between two rows."""
        return (self.top + self.bottom) / 2


def ordered(graph: Graph) -> list[list[str]]:
    """Return the nodes of each column from top to bottom, so that neighbours are about level (barycentre)."""
    present = sorted({node.column for node in graph.nodes})
    columns = [[node.key for node in graph.nodes if node.column is column] for column in present]
    neighbours = _neighbours(graph.edges)
    for _ in range(_SWEEPS):
        for sweep in (range(1, len(columns)), range(len(columns) - 2, -1, -1), range(1, len(columns))):
            for index in sweep:
                fixed = columns[:index] if sweep.step > 0 else columns[index + 1 :]
                columns[index] = _by_barycentre(columns[index], fixed, neighbours)
    return columns


def _by_barycentre(
    column: list[str], fixed: Sequence[Sequence[str]], neighbours: Mapping[str, Sequence[str]]
) -> list[str]:
    places = {key: index / len(other) for other in fixed for index, key in enumerate(other)}

    def weight(key: str) -> float:
        found = [places[each] for each in neighbours.get(key, ()) if each in places]
        return fmean(found) if found else column.index(key) / len(column)

    return sorted(column, key=weight)


def _neighbours(edges: Iterable[Edge]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for edge in edges:
        found.setdefault(edge.source, []).append(edge.target)
        found.setdefault(edge.target, []).append(edge.source)
    return found


def linked(graph: Graph, columns: Sequence[Sequence[str]]) -> list[Link]:
    """Return on which sides of its nodes each edge begins and ends: those that face each other.

    Within a column, both ends are on the right.
    """
    column_of = {key: index for index, column in enumerate(columns) for key in column}
    links = []
    for edge in graph.edges:
        source, target = column_of[edge.source], column_of[edge.target]
        leaves = Side.RIGHT if source <= target else Side.LEFT
        arrives = Side.LEFT if source < target else Side.RIGHT
        ends = ((edge.source, source, leaves), (edge.target, target, arrives))
        links.append(Link(edge, *(End(key, side, column + side.value) for key, column, side in ends)))
    return links


def rows(graph: Graph, columns: Sequence[Sequence[str]], links: Sequence[Link]) -> dict[str, Rows]:
    """Return the rows of each node: beside its neighbours on the left, below the node above.

    A node begins in an even row and has at least two inner rows for each edge on its fuller side, so that
    `route.py` finds a row for each.
    """
    heights = {node.key: node.height for node in graph.nodes}
    for key, least in _least(links).items():
        heights[key] = max(heights[key], least)
    neighbours = _neighbours(graph.edges)
    placed: dict[str, Rows] = {}
    for column in columns:
        free = 0
        before = dict(placed)
        for key in column:
            height = heights[key] + 2
            middles = [before[each].middle for each in neighbours.get(key, ()) if each in before]
            wanted = fmean(middles) - (height - 1) / 2 if middles else 0
            top = max(free, 2 * round(wanted / 2))
            placed[key] = Rows(top, top + height - 1)
            free = top + height + 1 + (top + height + 1) % 2
    return placed


def _least(links: Iterable[Link]) -> dict[str, int]:
    ends: dict[tuple[str, Side], int] = {}
    for link in links:
        for end in (link.source, link.target):
            ends[end.node, end.side] = ends.get((end.node, end.side), 0) + 2
    least: dict[str, int] = {}
    for (key, _), count in ends.items():
        least[key] = max(count, least.get(key, 0))
    return least
