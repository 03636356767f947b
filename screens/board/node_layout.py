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


Name = tuple[str, ...]
"""What has a row at a node, and a track in a gap: an edge, or a trunk of several."""


@dataclass(frozen=True, slots=True)
class Link:
    """An edge and its ends. Where the ends lie in one gap, it needs no more than that gap."""

    edge: Edge
    source: End
    target: End

    @property
    def ends(self) -> tuple[tuple[End, Name], tuple[End, Name]]:
        """The ends, and what each is an end of: the edge, or the trunk that it shares with others."""
        own = (self.edge.key,)
        return (
            (self.source, self._trunk(self.source) if self.edge.trunk == "source" else own),
            (self.target, self._trunk(self.target) if self.edge.trunk == "target" else own),
        )

    def _trunk(self, end: End) -> Name:
        return self.edge.trunk, end.node, end.side.name

    def track(self, end: End) -> Name:
        """Return what has the track that the edge takes in the gap of an end."""
        names = [name for each, name in self.ends if each.gap == end.gap]
        return next((name for name in names if name != (self.edge.key,)), names[0])


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
        if edge.trunk != "target":
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


def rows(
    graph: Graph, columns: Sequence[Sequence[str]], links: Sequence[Link], apart: int = 0
) -> dict[str, Rows]:
    """Return the rows of each node: beside its neighbours on the left, below the node above.

    Those that would stand in the same place are put about it. A node begins in an even row and has as many
    inner rows as `route.py` needs to find one for each end.
    """
    heights = {node.key: node.height for node in graph.nodes}
    for key, least in _least(links).items():
        heights[key] = max(heights[key], least)
    neighbours = _neighbours(graph.edges)
    placed: dict[str, Rows] = {}
    for column in columns:
        middle = (
            fmean([min(each.top for each in placed.values()), max(each.bottom for each in placed.values())])
            if placed
            else 0.0
        )
        wanted = []
        for key in column:
            middles = [placed[each].middle for each in neighbours.get(key, ()) if each in placed]
            wanted.append((fmean(middles) if middles else middle) - (heights[key] + 1) / 2)
        tops = _stacked(wanted, [heights[key] + 2 + apart for key in column])
        placed |= {key: Rows(top, top + heights[key] + 1) for key, top in zip(column, tops, strict=True)}
    first = min((each.top for each in placed.values()), default=0)
    return {key: Rows(each.top - first, each.bottom - first) for key, each in placed.items()}


def _stacked(wanted: Sequence[float], heights: Sequence[int]) -> list[int]:
    """Return even rows for nodes below each other with a row between them, as near as can be to those wanted.

    Neighbours that would overlap become a block about the mean of their places (pool adjacent violators).
    """
    offsets = [0]
    for height in heights[:-1]:
        offsets.append(offsets[-1] + height + 1 + (height + 1) % 2)
    blocks: list[list[float]] = []
    for place, offset in zip(wanted, offsets, strict=False):
        blocks.append([place - offset])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    tops = [2 * round(fmean(block) / 2) for block in blocks for _ in block]
    return [top + offset for top, offset in zip(tops, offsets, strict=False)]


def _least(links: Iterable[Link]) -> dict[str, int]:
    """Return how many inner rows a node needs: every second one is for ends on the same side."""
    ends: dict[tuple[str, Side], set[Name]] = {}
    for link in links:
        for end, name in link.ends:
            ends.setdefault((end.node, end.side), set()).add(name)
    least: dict[str, int] = {}
    for (key, side), names in ends.items():
        least[key] = max(2 * len(names) - (side is Side.RIGHT), least.get(key, 0))
    return least
