"""From a Project to the picture: which nodes and edges there are, what each is called, how wide cards are.

Imports no Textual.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from screens.board.cards import LINES
from screens.board.edits import Edit, Mark, Shown, shown
from screens.board.graph import Column, Edge, Graph, Node
from screens.board.layout import Placed, layout
from screens.board.project import Manifest, Mount

WIDTHS = ((28, 20, 1), (22, 18, 1), (17, 12, 1), (16, 11, 1), (12, 11, 1), (10, 11, 0))
"""Cells of a Resource's words, of a Door's, and beside both; the first that fit, the last where none do."""
MOST_SPREAD = 24
"""Cells that columns stand farther apart where there is room."""
APART = (4, 2)
"""Rows that nodes stand farther apart, where there is room."""
_DOOR_LINES = 2
_SIGNS: dict[Mark, str] = {"": "", "added": "+ ", "removed": "- "}


class Use(NamedTuple):
    """A Resource uses a Door."""

    resource: str
    door: str


Uses = Mapping[str, frozenset[str]]
"""The Resources that use each Door; all Doors there are."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph with places, and what its edges stand for: mounts, and uses of a Door by a Resource, by key.

    Nodes have `padding` cells on both sides of their words.
    """

    graph: Graph
    placed: Placed
    mounts: Mapping[str, Shown]
    uses: Mapping[str, Use]
    padding: int


def picture(manifest: Manifest, edits: Sequence[Edit], doors: Uses, room: int, rows: int = 0) -> Picture:
    """Lay a Project out, as wide as fits into `room` cells, with nodes as far apart as fits into `rows`."""
    drawn = {edge_key(each.mount): each for each in shown(manifest.mounts, edits)}
    uses = {
        f"{name} {door_key(door)}": Use(name, door)
        for door, users in doors.items()
        for name in manifest.resources
        if name in users
    }
    for width, door_width, padding in WIDTHS:
        graph = _graph(manifest, drawn, doors, uses, width + 2 * padding, door_width + 2 * padding)
        placed = layout(graph)
        if placed.width <= room:
            columns = {node.column for node in graph.nodes}
            spread = min((room - placed.width) // max(len(columns) - 1, 1), MOST_SPREAD)
            for apart in (*APART, 0):
                placed = layout(graph, spread, apart)
                if placed.height <= rows:
                    break
            break
    return Picture(graph, placed, drawn, uses, padding)


def edge_key(mount: Mount) -> str:
    """Return what the edge of a mount is called: its source, pattern and target."""
    return f"{mount.source} {mount.pattern} {mount.target}"


def _graph(
    manifest: Manifest,
    drawn: Mapping[str, Shown],
    doors: Iterable[str],
    uses: Mapping[str, Use],
    width: int,
    door_width: int,
) -> Graph:
    into = {each.mount.target for each in drawn.values()}
    out = {each.mount.source for each in drawn.values()}
    front = {name for name, each in manifest.resources.items() if each.kind == "image" or name in out} - into
    nodes = [
        Node(name, Column.FRONT_ENDS if name in front else Column.DYNAMIC, width, LINES)
        for name in manifest.resources
    ]
    nodes += [Node(door_key(door), Column.DOORS, door_width, _DOOR_LINES) for door in doors]
    edges = [
        Edge(key, each.mount.source, each.mount.target, f"{_SIGNS[each.mark]}{each.mount.pattern}", "source")
        for key, each in sorted(drawn.items(), key=lambda one: bool(one[1].mark))
    ]
    edges += [Edge(key, use.resource, door_key(use.door), trunk="target") for key, use in uses.items()]
    return Graph(tuple(nodes), tuple(edges))


def door_key(door: str) -> str:
    """Return the key of a Door's node; a Resource may have the same name."""
    return f"door {door}"


def door_of(key: str) -> str | None:
    """Return the Door that a node is, if it is one."""
    return key.removeprefix("door ") if key.startswith("door ") else None
