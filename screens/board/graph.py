"""What the Board shows, without places: nodes in columns, and edges between them."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal


class Column(IntEnum):
    """The columns of the Board, from left to right."""

    FRONT_ENDS = 0
    DYNAMIC = 1
    DOORS = 2


@dataclass(frozen=True, slots=True)
class Node:
    """A Resource or a Door; `width` cells and `height` rows are what is to be written inside its border."""

    key: str
    column: Column
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A mount, or a Resource's use of a Door: from node `source` to node `target`.

    `label` is written along the edge; each of its characters takes one cell. Edges of one `trunk` share their
    way at that end: those from one source until they part, those to one target, which have no labels, once
    they have met. The latter have no part in where nodes stand, so that they may come and go.
    """

    key: str
    source: str
    target: str
    label: str = ""
    trunk: Literal["", "source", "target"] = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges, each kind with keys of its own.

    Raises `ValueError` for a key that is there twice, and for an edge without its two nodes.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        known = {node.key for node in self.nodes}
        for keys in ([node.key for node in self.nodes], [edge.key for edge in self.edges]):
            twice = [key for key, count in Counter(keys).items() if count > 1]
            if twice:
                raise ValueError(f"there are two of {twice[0]}")
        for edge in self.edges:
            if edge.source == edge.target or not {edge.source, edge.target} <= known:
                raise ValueError(f"{edge.key} does not lead from one node to another")
