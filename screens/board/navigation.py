"""From one thing in the picture to the next: where arrows and tab lead. Imports no Textual."""

from collections.abc import Iterable, Mapping
from typing import Literal

from screens.board.diagram import Picture
from screens.board.edge_routing import Point
from screens.board.layout import Placed
from screens.board.render import Box, Hit, Route

Direction = Literal["left", "right", "up", "down"]
_ASIDE = 3
"""How much farther a row seems than a cell: cells are about twice as high as wide."""


def step(picture: Picture, at: Hit | None, direction: Direction) -> Hit | None:
    """Return what is next in a direction, or what one is at where there is nothing.

    To the left and right, an edge leads to the nodes that it joins; else the nearest is next.
    """
    anchors = _anchors(picture.placed)
    if at is None or at not in anchors:
        return first(picture)
    ahead = {hit: point for hit, point in anchors.items() if _ahead(anchors[at], point, direction)}
    if direction in ("left", "right") and at.kind == "edge":
        edge = next(edge for edge in picture.graph.edges if edge.key == at.key)
        ends = {Hit("node", edge.source), Hit("node", edge.target)}
        nodes = {hit: point for hit, point in ahead.items() if hit.kind == "node"}
        ahead = {hit: point for hit, point in nodes.items() if hit in ends} or nodes
    elif direction in ("up", "down"):
        ahead = {hit: point for hit, point in ahead.items() if hit.kind == at.kind} or ahead
    return min(ahead, key=lambda hit: _distance(anchors[at], ahead[hit], direction), default=at)


def first(picture: Picture) -> Hit | None:
    """Return what is selected when nothing was: the first node."""
    return next((Hit("node", node.key) for node in picture.graph.nodes), None)


def next_edge(picture: Picture, at: Hit | None, by: int) -> Hit | None:
    """Return the edge after or before the one that one is at, from top to bottom; from a node one of its own.

    Where there are no edges, it is the next node.
    """
    anchors = _anchors(picture.placed)
    edges = _read([hit for hit in anchors if hit.kind == "edge"], anchors)
    if not edges:
        edges = _read(anchors, anchors)
    if at in edges:
        return edges[(edges.index(at) + by) % len(edges)]
    own = {
        edge.key for edge in picture.graph.edges if at is not None and at.key in (edge.source, edge.target)
    }
    return next((hit for hit in edges[::by] if hit.key in own), edges[::by][0] if edges else at)


def nearest(picture: Picture, keys: Iterable[str], at: str, direction: Direction) -> str:
    """Return the nearest of some nodes in a direction, or the one that one is at."""
    anchors = {key: _middle(picture.placed.boxes[key]) for key in {*keys, at}}
    ahead = [key for key in anchors if key != at and _ahead(anchors[at], anchors[key], direction)]
    return min(sorted(ahead), key=lambda key: _distance(anchors[at], anchors[key], direction), default=at)


def _read(hits: Iterable[Hit], anchors: Mapping[Hit, Point]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (anchors[hit][1], anchors[hit][0], hit))


def _anchors(placed: Placed) -> dict[Hit, Point]:
    """Return the place that stands for each node and edge."""
    nodes = {Hit("node", key): _middle(box) for key, box in placed.boxes.items()}
    return nodes | {Hit("edge", key): anchor(route) for key, route in placed.routes.items()}


def anchor(route: Route) -> Point:
    """Return the place of an edge: the middle of its label, or of its first part."""
    if route.label:
        return route.label_at[0] + len(route.label) // 2, route.label_at[1]
    (x, y), (to, _) = route.points[:2]
    return (x + to) // 2, y


def _middle(box: Box) -> Point:
    return box.x + box.width // 2, box.y + box.height // 2


def _ahead(begin: Point, end: Point, direction: Direction) -> bool:
    return {
        "left": end[0] < begin[0],
        "right": end[0] > begin[0],
        "up": end[1] < begin[1],
        "down": end[1] > begin[1],
    }[direction]


def _distance(begin: Point, end: Point, direction: Direction) -> int:
    """Return how far it seems; what lies aside of the direction counts twice."""
    across, down = abs(end[0] - begin[0]), abs(end[1] - begin[1]) * _ASIDE
    return across + 2 * down if direction in ("left", "right") else down + 2 * across
