"""Diagram of a project: its nodes and edges, their keys, the width of the cards, and navigation.

Does not import Textual.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Literal, NamedTuple, TypeVar

from screens.board.cards import CARD_LINES, TALL_CARD_LINES
from screens.board.layout import BoardColumn, Box, Edge, Graph, GraphLayout, Hit, Node, Point, Route, layout
from screens.board.project import BoardMount, DrawnMount, Manifest, Mark, MountEdit, mounts_to_draw

WIDTHS = ((28, 20, 1), (22, 18, 1), (17, 12, 1), (16, 11, 1), (12, 11, 1), (10, 11, 0))
"""Widths of a resource card, a Door card, and their padding. The first triple that fits is used, or the last.
"""
MAX_SPREAD = 24
"""Maximum extra cells between two columns."""
SPACINGS = tuple(product((TALL_CARD_LINES, CARD_LINES), (4, 2, 0)))
"""Lines per resource card and extra rows between nodes, tried in this order."""
TALL_ROWS = 15
"""Minimum height of the diagram, in rows, for tall cards."""
_DOOR_LINES = 2
DOOR_ROWS = 6
"""Rows of a Door and of the space to the next one."""
_SIGNS: dict[Mark, str] = {"": "", "added": "+ ", "removed": "- "}


class Use(NamedTuple):
    """The use of a Door by a resource."""

    resource: str
    door: str


Uses = Mapping[str, frozenset[str]]
"""The resources that use each Door, with an entry for every Door."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A graph with its layout, and the mounts, fallbacks and Door uses of its edges by key.

    Nodes have `padding` cells on both sides of their text.
    """

    graph: Graph
    layout: GraphLayout
    mounts: Mapping[str, DrawnMount]
    fallbacks: Mapping[str, BoardMount]
    uses: Mapping[str, Use]
    _: KW_ONLY
    padding: int


def build_diagram(
    manifest: Manifest, edits: Sequence[MountEdit], doors: Uses, room: int, rows: int = 0
) -> Diagram:
    """Lay out a project in `room` cells, with extra space between nodes up to a height of `rows`."""
    drawn_mounts = {
        f"{drawn.mount.source} {drawn.mount.pattern} {drawn.mount.target}": drawn
        for drawn in mounts_to_draw(manifest.mounts, edits)
        if {drawn.mount.source, drawn.mount.target} <= manifest.resources.keys()  # An edit may name others.
    }
    fallbacks = {
        f"{name} fallback": BoardMount(name, "fallback", resource.fallback)
        for name, resource in manifest.resources.items()
        if resource.fallback in manifest.resources
    }
    uses = {
        f"{name} {door_key(door)}": Use(name, door)
        for door, users in doors.items()
        for name in manifest.resources
        if name in users
    }
    edges = [
        Edge(key, each.mount.source, each.mount.target, f"{_SIGNS[each.mark]}{each.mount.pattern}", "source")
        for key, each in sorted(drawn_mounts.items(), key=lambda item: bool(item[1].mark))
    ]
    edges += [Edge(key, each.source, each.target, each.pattern, "source") for key, each in fallbacks.items()]
    targets = {edge.target for edge in edges}
    sources = {drawn.mount.source for drawn in drawn_mounts.values()}
    edges += [Edge(key, use.resource, door_key(use.door), trunk="target") for key, use in uses.items()]
    front_ends = {
        name for name, resource in manifest.resources.items() if resource.kind == "image" or name in sources
    } - targets
    columns = {
        name: BoardColumn.FRONT_ENDS if name in front_ends else BoardColumn.DYNAMIC
        for name in manifest.resources
    } | {door_key(door): BoardColumn.DOORS for door in doors}

    def graph_of(widths: tuple[int, int, int], lines: int = CARD_LINES) -> Graph:
        width, door_width, padding = widths
        card, door = (width + 2 * padding, lines), (door_width + 2 * padding, _DOOR_LINES)
        sizes = dict.fromkeys(BoardColumn, card) | {BoardColumn.DOORS: door}
        nodes = (Node(key, column, *sizes[column]) for key, column in columns.items())
        return Graph(tuple(nodes), tuple(edges))

    for widths in WIDTHS:
        graph_layout = layout(graph := graph_of(widths))
        if graph_layout.width <= room:
            gaps = max(len(set(columns.values())) - 1, 1)
            spread = min((room - graph_layout.width) // gaps, MAX_SPREAD)
            for lines, row_gap in SPACINGS:
                if lines == TALL_CARD_LINES and rows < TALL_ROWS:
                    continue
                graph_layout = layout(graph := graph_of(widths, lines), spread, row_gap)
                if graph_layout.height <= rows:
                    break
            break
    return Diagram(graph, graph_layout, drawn_mounts, fallbacks, uses, padding=widths[2])


def door_key(door: str) -> str:
    """Return the key of a Door's node. It differs from the key of a resource with the same name."""
    return f"door {door}"


def door_of(key: str) -> str | None:
    """Return the name of the Door of a node, or None for a resource."""
    return key.removeprefix("door ") if key.startswith("door ") else None


EMPTY = build_diagram(Manifest({}, ()), (), {}, 0)
"""The diagram before a project is loaded."""


Direction = Literal["left", "right", "up", "down"]
_STEPS: Mapping[Direction, Point] = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_ROW_WEIGHT = 3
"""Weight of a row relative to a cell: cells are about twice as high as wide."""
T = TypeVar("T")


def next_in_direction(diagram: Diagram, at: Hit | None, direction: Direction) -> Hit | None:
    """Return the next item in a direction, or the current one if there is none.

    To the left and right, an edge leads to the nodes that it connects; otherwise the nearest item is next.
    """
    anchors = _anchors(diagram.layout)
    if at is None or at not in anchors:
        return first_node(diagram)
    distances = _distances(anchors, at, direction)
    if direction in ("left", "right") and at.kind == "edge":
        edge = next(edge for edge in diagram.graph.edges if edge.key == at.key)
        ends = {Hit("node", edge.source), Hit("node", edge.target)}
        nodes = {hit: distance for hit, distance in distances.items() if hit.kind == "node"}
        distances = {hit: distance for hit, distance in nodes.items() if hit in ends} or nodes
    elif direction in ("up", "down"):
        distances = {hit: away for hit, away in distances.items() if hit.kind == at.kind} or distances
    return min(distances, key=distances.__getitem__, default=at)


def first_node(diagram: Diagram) -> Hit | None:
    """Return the initial selection: the first node."""
    return next((Hit("node", node.key) for node in diagram.graph.nodes), None)


def next_edge(diagram: Diagram, at: Hit | None, by: int) -> Hit | None:
    """Return the next or previous edge, from top to bottom; from a node, its own. Without edges, a node."""
    anchors = _anchors(diagram.layout)
    edges = _reading_order([hit for hit in anchors if hit.kind == "edge"], anchors)
    if not edges:
        edges = _reading_order(anchors, anchors)
    if at in edges:
        return edges[(edges.index(at) + by) % len(edges)]
    near = at.key if at is not None else ""
    own = {edge.key for edge in diagram.graph.edges if near in (edge.source, edge.target)}
    return next((hit for hit in edges[::by] if hit.key in own), edges[::by][0] if edges else at)


def nearest(diagram: Diagram, keys: Iterable[str], at: str, direction: Direction) -> str:
    """Return the nearest of some nodes in a direction, or the current one."""
    anchors = {key: _middle(diagram.layout.boxes[key]) for key in sorted({*keys, at})}
    distances = _distances(anchors, at, direction)
    return min(distances, key=distances.__getitem__, default=at)


def _reading_order(hits: Iterable[Hit], anchors: Mapping[Hit, Point]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (anchors[hit][1], anchors[hit][0], hit))


def _anchors(graph_layout: GraphLayout) -> dict[Hit, Point]:
    """Return the reference point of each node and edge."""
    nodes = {Hit("node", key): _middle(box) for key, box in graph_layout.boxes.items()}
    return nodes | {Hit("edge", key): anchor(route) for key, route in graph_layout.routes.items()}


def anchor(route: Route) -> Point:
    """Return the reference point of an edge: the middle of its label, or of its first part."""
    if route.label:
        return route.label_at[0] + len(route.label) // 2, route.label_at[1]
    (x, y), (to, _) = route.points[:2]
    return (x + to) // 2, y


def _middle(box: Box) -> Point:
    return box.x + box.width // 2, box.y + box.height // 2


def _distances(anchors: Mapping[T, Point], at: T, direction: Direction) -> dict[T, int]:
    """Return the perceived distances of the points ahead; an offset across the direction counts twice."""
    (ahead_x, ahead_y), (x, y) = _STEPS[direction], anchors[at]
    distances = {}
    for key, (to_x, to_y) in anchors.items():
        right, down = to_x - x, (to_y - y) * _ROW_WEIGHT
        if (ahead := right * ahead_x + down * ahead_y) > 0:
            distances[key] = ahead + 2 * abs(right * ahead_y + down * ahead_x)
    return distances
