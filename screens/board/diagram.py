"""Diagram of a project: its nodes and edges, their keys, and the width of the cards.

Does not import Textual.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from screens.board.cards import CARD_LINES, TALL_CARD_LINES
from screens.board.edits import DrawnMount, Mark, MountEdit, mounts_to_draw
from screens.board.graph import BoardColumn, Edge, Graph, Node
from screens.board.layout import GraphLayout, layout
from screens.board.project import BoardMount, Manifest

WIDTHS = ((28, 20, 1), (22, 18, 1), (17, 12, 1), (16, 11, 1), (12, 11, 1), (10, 11, 0))
"""Widths of a resource card, a Door card, and their padding. The first triple that fits is used, or the last.
"""
MAX_SPREAD = 24
"""Maximum extra cells between two columns."""
SPACINGS = (
    (TALL_CARD_LINES, 4),
    (TALL_CARD_LINES, 2),
    (TALL_CARD_LINES, 0),
    (CARD_LINES, 4),
    (CARD_LINES, 2),
    (CARD_LINES, 0),
)
"""Lines per resource card and extra rows between nodes, tried in this order."""
TALL_ROWS = 15
"""Minimum height of the diagram, in rows, for tall cards."""
_DOOR_LINES = 2
_SIGNS: dict[Mark, str] = {"": "", "added": "+ ", "removed": "- "}


class Use(NamedTuple):
    """The use of a Door by a resource."""

    resource: str
    door: str


Uses = Mapping[str, frozenset[str]]
"""The resources that use each Door, with an entry for every Door."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A graph with its layout, and the mounts and Door uses of its edges by key.

    Nodes have `padding` cells on both sides of their text.
    """

    graph: Graph
    layout: GraphLayout
    mounts: Mapping[str, DrawnMount]
    uses: Mapping[str, Use]
    padding: int


def build_diagram(
    manifest: Manifest, edits: Sequence[MountEdit], doors: Uses, room: int, rows: int = 0
) -> Diagram:
    """Lay out a project in `room` cells, with extra space between nodes up to a height of `rows`."""
    drawn_mounts = {edge_key(drawn.mount): drawn for drawn in mounts_to_draw(manifest.mounts, edits)}
    uses = {
        f"{name} {door_key(door)}": Use(name, door)
        for door, users in doors.items()
        for name in manifest.resources
        if name in users
    }
    for width, door_width, padding in WIDTHS:
        widths = width + 2 * padding, door_width + 2 * padding
        graph = _graph(manifest, drawn_mounts, doors, uses, *widths)
        graph_layout = layout(graph)
        if graph_layout.width <= room:
            columns = {node.column for node in graph.nodes}
            spread = min((room - graph_layout.width) // max(len(columns) - 1, 1), MAX_SPREAD)
            for lines, row_gap in SPACINGS:
                if lines == TALL_CARD_LINES and rows < TALL_ROWS:
                    continue
                graph = _graph(manifest, drawn_mounts, doors, uses, *widths, lines)
                graph_layout = layout(graph, spread, row_gap)
                if graph_layout.height <= rows:
                    break
            break
    return Diagram(graph, graph_layout, drawn_mounts, uses, padding)


def edge_key(mount: BoardMount) -> str:
    """Return the key of a mount's edge."""
    return f"{mount.source} {mount.pattern} {mount.target}"


def _graph(
    manifest: Manifest,
    drawn_mounts: Mapping[str, DrawnMount],
    doors: Iterable[str],
    uses: Mapping[str, Use],
    width: int,
    door_width: int,
    lines: int = CARD_LINES,
) -> Graph:
    targets = {drawn.mount.target for drawn in drawn_mounts.values()}
    sources = {drawn.mount.source for drawn in drawn_mounts.values()}
    front_ends = {
        name for name, resource in manifest.resources.items() if resource.kind == "image" or name in sources
    } - targets
    nodes = [
        Node(name, BoardColumn.FRONT_ENDS if name in front_ends else BoardColumn.DYNAMIC, width, lines)
        for name in manifest.resources
    ]
    nodes += [Node(door_key(door), BoardColumn.DOORS, door_width, _DOOR_LINES) for door in doors]
    edges = [
        Edge(
            key,
            drawn.mount.source,
            drawn.mount.target,
            f"{_SIGNS[drawn.mark]}{drawn.mount.pattern}",
            "source",
        )
        for key, drawn in sorted(drawn_mounts.items(), key=lambda item: bool(item[1].mark))
    ]
    edges += [Edge(key, use.resource, door_key(use.door), trunk="target") for key, use in uses.items()]
    return Graph(tuple(nodes), tuple(edges))


def door_key(door: str) -> str:
    """Return the key of a Door's node. It differs from the key of a resource with the same name."""
    return f"door {door}"


def door_of(key: str) -> str | None:
    """Return the name of the Door of a node, or None for a resource."""
    return key.removeprefix("door ") if key.startswith("door ") else None
