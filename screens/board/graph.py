"""Graph of the Board without positions: nodes in columns, and edges between them."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal


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
    """Nodes and edges with unique keys.

    Raises `ValueError` for duplicate keys and for edges without both nodes.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        node_keys = {node.key for node in self.nodes}
        for keys in ([node.key for node in self.nodes], [edge.key for edge in self.edges]):
            duplicates = [key for key, count in Counter(keys).items() if count > 1]
            if duplicates:
                raise ValueError(f"duplicate key {duplicates[0]}")
        for edge in self.edges:
            if edge.source == edge.target or not {edge.source, edge.target} <= node_keys:
                raise ValueError(f"{edge.key} does not connect two nodes")
