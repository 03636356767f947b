"""The picture: what is in each cell, and which character stands for it.

Owns no positions: those come as boxes and ways. A cell knows which of its four neighbours its line leads to;
lines that meet in a cell are put together from that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from screens.board.route import Point

N, E, S, W = 1, 2, 4, 8
"""The directions in which a line leaves a cell."""
UNICODE = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
"""The character of each mask, 0 to 15."""
ASCII = " |-+||++-+-++++++"
_ARROWS = {UNICODE: {E: "►", W: "◄"}, ASCII: {E: ">", W: "<"}}


class Hit(NamedTuple):
    """What is in a cell: a node or an edge, by its key."""

    kind: Literal["node", "edge"]
    key: str


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is: cells and rows from the top left corner of its border, which is a part of it."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Route:
    """The way of an edge: its corners, from the border of one node to that of the other, and its label."""

    points: tuple[Point, ...]
    label: str
    label_at: Point


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `arrow` is E or W where an edge enters a node; `text` is a character in place of a line."""

    mask: int
    hit: Hit
    arrow: int = 0
    text: str = ""

    def glyph(self, glyphs: str = UNICODE) -> str:
        """Return the character of this cell, by `UNICODE` or `ASCII`."""
        if self.text:
            return self.text
        return _ARROWS[glyphs][self.arrow] if self.arrow else glyphs[self.mask]


def drawn(boxes: Mapping[str, Box], routes: Mapping[str, Route]) -> dict[Point, Cell]:
    """Return every cell that is not empty. Where two edges cross, the cell is that of the first."""
    cells: dict[Point, Cell] = {}
    for key, box in boxes.items():
        _draw_box(cells, Hit("node", key), box)
    for key, route in routes.items():
        hit = Hit("edge", key)
        (from_x, _), (x, y) = route.points[-2:]
        ahead, before = (E, (x - 1, y)) if from_x < x else (W, (x + 1, y))
        for begin, end in pairwise((*route.points[:-1], before)):
            _draw_line(cells, hit, begin, end)
        cells[before] = replace(cells[before], arrow=ahead, mask=E | W)
        for index, character in enumerate(route.label):
            place = (route.label_at[0] + index, route.label_at[1])
            cells[place] = replace(cells[place], text=character)
    return cells


def text(
    cells: Mapping[Point, Cell], width: int, rows: Iterable[int], glyphs: str = UNICODE, left: int = 0
) -> list[str]:
    """Return rows of the picture as lines of `width` characters, from cell `left` on."""
    return [
        "".join(
            cell.glyph(glyphs) if (cell := cells.get((x, y))) is not None else " "
            for x in range(left, left + width)
        )
        for y in rows
    ]


def _draw_box(cells: dict[Point, Cell], hit: Hit, box: Box) -> None:
    right, bottom = box.x + box.width - 1, box.y + box.height - 1
    for y in range(box.y, bottom + 1):
        for x in range(box.x, right + 1):
            mask = 0
            if y in (box.y, bottom):
                mask |= (E if x < right else 0) | (W if x > box.x else 0)
            if x in (box.x, right):
                mask |= (S if y < bottom else 0) | (N if y > box.y else 0)
            cells[x, y] = Cell(mask, hit)


def _draw_line(cells: dict[Point, Cell], hit: Hit, begin: Point, end: Point) -> None:
    dx, dy = ((to > at) - (to < at) for at, to in zip(begin, end, strict=True))
    ahead, back = {(1, 0): (E, W), (-1, 0): (W, E), (0, 1): (S, N), (0, -1): (N, S)}[dx, dy]
    x, y = begin
    while (x, y) != end:
        _lead(cells, hit, (x, y), ahead)
        x, y = x + dx, y + dy
        _lead(cells, hit, (x, y), back)


def _lead(cells: dict[Point, Cell], hit: Hit, place: Point, direction: int) -> None:
    cell = cells.get(place)
    cells[place] = Cell(direction, hit) if cell is None else replace(cell, mask=cell.mask | direction)
