"""Keyboard navigation between the nodes and edges of a diagram. Does not import Textual."""

from collections.abc import Iterable, Mapping
from typing import Literal

from screens.board.diagram import Diagram
from screens.board.edge_routing import Point
from screens.board.layout import GraphLayout
from screens.board.render import Box, Hit, Route

Direction = Literal["left", "right", "up", "down"]
_ROW_WEIGHT = 3
"""Weight of a row relative to a cell: cells are about twice as high as wide."""


def next_in_direction(diagram: Diagram, at: Hit | None, direction: Direction) -> Hit | None:
    """Return the next item in a direction, or the current one if there is none.

    To the left and right, an edge leads to the nodes that it connects; otherwise the nearest item is next.
    """
    anchors = _anchors(diagram.layout)
    if at is None or at not in anchors:
        return first_node(diagram)
    candidates = {hit: point for hit, point in anchors.items() if _is_ahead(anchors[at], point, direction)}
    if direction in ("left", "right") and at.kind == "edge":
        edge = next(edge for edge in diagram.graph.edges if edge.key == at.key)
        ends = {Hit("node", edge.source), Hit("node", edge.target)}
        nodes = {hit: point for hit, point in candidates.items() if hit.kind == "node"}
        candidates = {hit: point for hit, point in nodes.items() if hit in ends} or nodes
    elif direction in ("up", "down"):
        candidates = {hit: point for hit, point in candidates.items() if hit.kind == at.kind} or candidates
    return min(candidates, key=lambda hit: _distance(anchors[at], candidates[hit], direction), default=at)


def first_node(diagram: Diagram) -> Hit | None:
    """Return the initial selection: the first node."""
    return next((Hit("node", node.key) for node in diagram.graph.nodes), None)


def next_edge(diagram: Diagram, at: Hit | None, by: int) -> Hit | None:
    """Return the next or previous edge from top to bottom; from a node, one of its own edges.

    Without any edges, return the next node.
    """
    anchors = _anchors(diagram.layout)
    edges = _reading_order([hit for hit in anchors if hit.kind == "edge"], anchors)
    if not edges:
        edges = _reading_order(anchors, anchors)
    if at in edges:
        return edges[(edges.index(at) + by) % len(edges)]
    own = {
        edge.key for edge in diagram.graph.edges if at is not None and at.key in (edge.source, edge.target)
    }
    return next((hit for hit in edges[::by] if hit.key in own), edges[::by][0] if edges else at)


def nearest(diagram: Diagram, keys: Iterable[str], at: str, direction: Direction) -> str:
    """Return the nearest of some nodes in a direction, or the current one."""
    anchors = {key: _middle(diagram.layout.boxes[key]) for key in {*keys, at}}
    candidates = [key for key in anchors if key != at and _is_ahead(anchors[at], anchors[key], direction)]
    return min(
        sorted(candidates), key=lambda key: _distance(anchors[at], anchors[key], direction), default=at
    )


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


def _is_ahead(begin: Point, end: Point, direction: Direction) -> bool:
    return {
        "left": end[0] < begin[0],
        "right": end[0] > begin[0],
        "up": end[1] < begin[1],
        "down": end[1] > begin[1],
    }[direction]


def _distance(begin: Point, end: Point, direction: Direction) -> int:
    """Return the perceived distance; an offset across the direction counts twice."""
    across, down = abs(end[0] - begin[0]), abs(end[1] - begin[1]) * _ROW_WEIGHT
    return across + 2 * down if direction in ("left", "right") else down + 2 * across
