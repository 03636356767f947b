"""Rendering of a layout: the content of each cell and its box-drawing character.

A cell stores in which directions its line continues. Lines that meet in a cell are combined.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from screens.board.edge_routing import Point

N, E, S, W = 1, 2, 4, 8
"""Bits for the directions in which a line leaves a cell."""
UNICODE = " ╵╶╰╷│╭├╴╯─┴╮┤┬┼"
"""The character of each bit mask, 0 to 15."""
HEAVY = " ╹╺┗╻┃┏┣╸┛━┻┓┫┳╋"
"""The characters of selected items."""
DIMMED = UNICODE.replace("│", "┊").replace("─", "┈")
"""The characters of nodes that cannot be selected."""
ASCII = " |-+||++-+-++++++"
HEAVY_ASCII = " #=######=#=#####"
DIMMED_ASCII = ASCII.replace("|", ":").replace("-", ".")
_ARROWS = {E: {UNICODE: "▶", HEAVY: "▶"}, W: {UNICODE: "◀", HEAVY: "◀"}}
_ASCII_ARROWS = {E: ">", W: "<"}


class Hit(NamedTuple):
    """A node or edge in a cell, by key."""

    kind: Literal["node", "edge"]
    key: str


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of a node including its border, in cells."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Route:
    """The path of an edge: its corners, from one node's border to the other's, and its label."""

    points: tuple[Point, ...]
    label: str
    label_at: Point


class DiagramCell(NamedTuple):
    """A cell. `arrow` is E or W where an edge enters a node; `text` replaces the line character."""

    mask: int
    hit: Hit
    arrow: int = 0
    text: str = ""

    def glyph(self, glyphs: str = UNICODE) -> str:
        """Return the character of the cell in one of the four glyph sets."""
        if self.text:
            return self.text
        if self.arrow:
            return _ARROWS[self.arrow].get(glyphs, _ASCII_ARROWS[self.arrow])
        return glyphs[self.mask]


def draw_cells(boxes: Mapping[str, Box], routes: Mapping[str, Route]) -> dict[Point, DiagramCell]:
    """Return all cells that are not empty.

    At a crossing, the horizontal edge is drawn on top. A cell shared by several edges belongs to the first.
    """
    masks: dict[Point, int] = {}
    hits: dict[Point, Hit] = {}
    for key, box in boxes.items():
        hit = Hit("node", key)
        for point, mask in _box(box):
            masks[point], hits[point] = mask, hit
    arrows: dict[Point, int] = {}
    for key, route in routes.items():
        for point, mask in route_masks(route).items():
            if mask == E | W and masks.get(point) == N | S:
                masks[point], hits[point] = mask, Hit("edge", key)
            elif mask != N | S or masks.get(point) != E | W:
                masks[point] = masks.get(point, 0) | mask
                hits.setdefault(point, Hit("edge", key))
        arrows |= dict([_arrow(route)])
    cells = {point: DiagramCell(mask, hits[point]) for point, mask in masks.items()}
    for point, ahead in arrows.items():
        cells[point] = cells[point]._replace(arrow=ahead)
    for route in routes.values():
        x, y = route.label_at
        for index, character in enumerate(route.label):
            cells[x + index, y] = cells[x + index, y]._replace(text=character)
    return cells


def route_masks(route: Route) -> dict[Point, int]:
    """Return the mask of each cell of one edge, without the edges that share its cells."""
    before, ahead = _arrow(route)
    masks: dict[Point, int] = {before: ahead}
    for point, direction in _line((*route.points[:-1], before)):
        masks[point] = masks.get(point, 0) | direction
    return masks


def _arrow(route: Route) -> tuple[Point, int]:
    """Return the cell before the target node and the direction of the arrow."""
    (from_x, _), (x, y) = route.points[-2:]
    return ((x - 1, y), E) if from_x < x else ((x + 1, y), W)


def _box(box: Box) -> Iterator[tuple[Point, int]]:
    right, bottom = box.x + box.width - 1, box.y + box.height - 1
    for y in range(box.y, bottom + 1):
        for x in range(box.x, right + 1):
            mask = 0
            if y in (box.y, bottom):
                mask |= (E if x < right else 0) | (W if x > box.x else 0)
            if x in (box.x, right):
                mask |= (S if y < bottom else 0) | (N if y > box.y else 0)
            yield (x, y), mask


def _line(points: Sequence[Point]) -> Iterator[tuple[Point, int]]:
    """Yield the cells of a polyline with their directions; corners are yielded twice."""
    for begin, end in pairwise(points):
        dx, dy = ((to > at) - (to < at) for at, to in zip(begin, end, strict=True))
        ahead, back = {(1, 0): (E, W), (-1, 0): (W, E), (0, 1): (S, N), (0, -1): (N, S)}[dx, dy]
        x, y = begin
        while (x, y) != end:
            yield (x, y), ahead
            x, y = x + dx, y + dy
            yield (x, y), back
