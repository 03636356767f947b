"""The picture on the screen: drawing, scrolling, what is selected, and drawing an edge by mouse or keys.

Knows nodes and edges, not what they stand for: the screen gives it a picture, the text of each node and the
tone of each edge, and hears what was selected, opened and joined.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size, Spacing
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.board.cards import Line
from screens.board.diagram import Picture
from screens.board.edge_routing import Point
from screens.board.navigation import Direction, first, nearest, next_edge, step
from screens.board.render import ASCII, FAINT, FAINT_ASCII, HEAVY, HEAVY_ASCII, UNICODE, Cell, Hit, way
from screens.widgets.component_styles import ComponentStyles
from screens.widgets.row_source import Tone


class Canvas(ScrollView, can_focus=True):
    """A picture that can be walked through, and in which two nodes can be joined."""

    ALLOW_SELECT = False
    GROUP: ClassVar[str] = "Board"
    DEFAULT_CSS = """
    Canvas {
        scrollbar-size: 1 1;
        & > .canvas--line { color: $foreground 35%; }
        & > .canvas--label { color: $foreground 60%; }
        & > .canvas--selected { color: $accent; text-style: bold; }
        & > .canvas--bold { text-style: bold; }
        & > .canvas--dim { color: $foreground 60%; }
        & > .canvas--accent { color: $accent; }
        & > .canvas--good { color: $text-success; }
        & > .canvas--notice { color: $text-primary; }
        & > .canvas--warn { color: $text-warning; }
        & > .canvas--bad { color: $text-error; text-style: bold; }
        & > .canvas--faint { color: $foreground 25%; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("canvas--line", "canvas--label", "canvas--selected", "canvas--bold", "canvas--dim"),
        *("canvas--accent", "canvas--good", "canvas--notice", "canvas--warn", "canvas--bad", "canvas--faint"),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h,left", "walk('left')", "Left", show=False, id="board.left"),
        Binding("l,right", "walk('right')", "Right", show=False, id="board.right"),
        Binding("k,up", "walk('up')", "Up", show=False, id="board.up"),
        Binding("j,down", "walk('down')", "Down", show=False, id="board.down"),
        Binding("tab", "edge(1)", "Next edge", show=False, id="board.next-edge"),
        Binding("shift+tab", "edge(-1)", "Edge before", show=False, id="board.edge-before"),
    ]

    @dataclass
    class Selected(Message):
        """Something else is selected."""

        hit: Hit

    @dataclass
    class Opened(Message):
        """What is selected was opened, by a double click."""

        hit: Hit

    @dataclass
    class Dragged(Message):
        """A line is being drawn from a node with the mouse; its targets are asked for."""

        source: str

    @dataclass
    class Aimed(Message):
        """The line that is being drawn leads to this node now, or to none."""

        target: str | None

    @dataclass
    class Joined(Message):
        """The mouse was let go on a node (or on none), where the line shall end."""

        target: str | None

    def __init__(self, *, unicode: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs, self._heavy, self._dotted = (
            (UNICODE, HEAVY, FAINT) if unicode else (ASCII, HEAVY_ASCII, FAINT_ASCII)
        )
        self._dots = "·" if unicode else "."
        self._picture: Picture | None = None
        self._cards: Mapping[str, tuple[Line, ...]] = {}
        self._tones: Mapping[str, Tone] = {}
        self._selected: Hit | None = None
        self._way: Mapping[Point, int] = {}
        self._pressed: str | None = None
        self._source: str | None = None
        self._targets: frozenset[str] = frozenset()
        self._aim: str | None = None
        self._looks = ComponentStyles(self, "canvas--")
        self._lines: dict[int, Strip] = {}
        self._rows: dict[int, dict[int, Cell]] = {}

    # What is shown

    @property
    def picture(self) -> Picture | None:
        """What is shown."""
        return self._picture

    @property
    def selected(self) -> Hit | None:
        """The node or edge that keys are about."""
        return self._selected

    def show(self, picture: Picture) -> None:
        """Show another picture; what is selected stays so where it is still there."""
        self._picture = picture
        self._rows = {}
        for (x, y), cell in picture.placed.cells.items():
            self._rows.setdefault(y, {})[x] = cell
        self.virtual_size = Size(picture.placed.width, picture.placed.height)
        if self._source not in picture.placed.boxes:
            self._source = None
        if self._aim not in picture.placed.boxes:
            self._aim = None
        self._changed()
        if not self._shows(self._selected):
            self._selected = None
        self._follow()
        self.select(self._selected or first(picture))

    def write(self, cards: Mapping[str, tuple[Line, ...]], tones: Mapping[str, Tone]) -> None:
        """Have the nodes say this, and the edges be of these tones."""
        if (cards, tones) != (self._cards, self._tones):
            self._cards, self._tones = cards, tones
            self._changed()

    def _shows(self, hit: Hit | None) -> bool:
        if hit is None or self._picture is None:
            return False
        return hit.key in {*self._picture.placed.boxes, *self._picture.placed.routes}

    def select(self, hit: Hit | None) -> None:
        """Select something and bring it into sight, if it is in the picture."""
        if hit is None or self._picture is None or not self._shows(hit):
            return
        if hit != self._selected:
            self._selected = hit
            self._follow()
            self._changed()
            self.post_message(self.Selected(hit))
        self._into_sight(self._region(self._picture, hit))

    def _follow(self) -> None:
        """Know the whole way of the edge that is selected, of which others may have a part."""
        hit, picture = self._selected, self._picture
        edge = hit is not None and hit.kind == "edge" and picture is not None
        self._way = way(picture.placed.routes[hit.key]) if edge else {}  # type: ignore[union-attr]

    def _region(self, picture: Picture, hit: Hit) -> Region:
        if hit.kind == "node":
            box = picture.placed.boxes[hit.key]
            return Region(box.x, box.y, box.width, box.height)
        route = picture.placed.routes[hit.key]
        return Region(*route.label_at, max(len(route.label), 1), 1)

    def _into_sight(self, region: Region) -> None:
        self.scroll_to_region(region, spacing=Spacing(1, 1, 1, 1), animate=False, immediate=True)

    def _changed(self) -> None:
        self._lines.clear()
        self.refresh()

    # Drawing an edge

    @property
    def aim(self) -> str | None:
        """The node that the line leads to, while one is drawn."""
        return self._aim

    def begin(self, source: str, targets: frozenset[str], aim: str | None) -> None:
        """Draw a line from a node; all nodes but the targets become faint."""
        self._source, self._targets = source, targets
        self._take_aim(aim)
        self._changed()

    def end(self) -> None:
        """Draw no line any more."""
        self._source = self._pressed = self._aim = None
        self._changed()

    def _take_aim(self, key: str | None) -> None:
        self._aim = key
        self._changed()
        self.post_message(self.Aimed(key))
        if key is not None and self._picture is not None:
            self._into_sight(self._region(self._picture, Hit("node", key)))

    # Keys

    def action_walk(self, direction: Direction) -> None:
        """Go to what is next in a direction; while a line is drawn, to the next node that it may lead to."""
        if self._picture is None:
            return
        if self._source is not None:
            keys = self._picture.placed.boxes.keys() - {self._source}
            at = nearest(self._picture, keys, self._aim or self._source, direction)
            self._take_aim(at if at != self._source else self._aim)
        else:
            self.select(step(self._picture, self._selected, direction))

    def action_edge(self, by: int) -> None:
        """Go to the edge after or before; while a line is drawn, to the target after or before."""
        if self._picture is None:
            return
        if self._source is None:
            self.select(next_edge(self._picture, self._selected, by))
        elif self._targets:
            keys = [key for key in self._picture.placed.boxes if key in self._targets]
            at = keys.index(self._aim) if self._aim in keys else -1
            self._take_aim(keys[(at + by) % len(keys)])

    def page(self, pages: int) -> None:
        """Scroll by what the screen shows."""
        height = self.scrollable_content_region.height
        self.scroll_to(y=self.scroll_offset.y + pages * height, animate=False)

    # The mouse

    def _at(self, event: events.MouseEvent) -> Hit | None:
        offset = event.get_content_offset(self)
        if offset is None or self._picture is None:
            return None
        x, y = offset + self.scroll_offset
        return self._picture.placed.hit(x, y)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Select what is below the mouse; a line may be drawn from there."""
        hit = self._at(event)
        if self._source is not None:
            return
        if hit is not None:
            self.select(hit)
            if hit.kind == "node":
                self._pressed = hit.key
                self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Draw a line to where the mouse is, once it has left the node in which it was pressed."""
        hit = self._at(event)
        key = hit.key if hit is not None and hit.kind == "node" else None
        if self._source is None and self._pressed is not None and key != self._pressed:
            self.post_message(self.Dragged(self._pressed))
            self._pressed = None
        elif self._source is not None and key not in (None, self._source, self._aim):
            self._take_aim(key)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End the line here."""
        self.release_mouse()
        self._pressed = None
        if self._source is not None:
            hit = self._at(event)
            ends = hit is not None and hit.kind == "node" and hit.key != self._source
            self.post_message(self.Joined(hit.key if hit is not None and ends else None))

    def on_click(self, event: events.Click) -> None:
        """Open what is clicked twice."""
        if event.chain == 2 and self._source is None and (hit := self._at(event)) is not None:
            self.post_message(self.Opened(hit))

    # Lines

    def notify_style_update(self) -> None:
        """Forget lines in the colours of before."""
        super().notify_style_update()
        self._looks.clear()
        self._lines.clear()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        region, offset = self.scrollable_content_region, self.scroll_offset
        row = y + offset.y
        if row not in self._lines:
            self._lines[row] = self._drawn(row)
        return self._lines[row].crop_extend(offset.x, offset.x + region.width, self.rich_style)

    def _drawn(self, y: int) -> Strip:
        picture = self._picture
        if picture is None or y >= picture.placed.height:
            return Strip([])
        base, row = self.rich_style, self._rows.get(y, {})
        inside = {
            box.x: (key, box)
            for key, box in picture.placed.boxes.items()
            if box.y < y < box.y + box.height - 1
        }
        rubber = {
            x for x, at in self._rubber(picture) if at == y and (x not in row or row[x].hit.kind == "edge")
        }
        pieces: list[tuple[str, str]] = []
        end = 0
        for x in sorted({*row, *rubber}):
            if x < end:
                continue  # in a node, whose text is there already
            pieces.append((" " * (x - end), ""))
            end = x + 1
            if x in rubber:
                pieces.append((self._dots, "selected"))
                continue
            pieces.append(self._cell(self._on_way(row[x], (x, y))))
            if x in inside:
                key, box = inside[x]
                end = x + box.width
                pieces += [*self._inside(picture, key, y - box.y - 1), self._cell(row[end - 1])]
        pieces.append((" " * (picture.placed.width - end), ""))
        segments = [
            Segment("".join(text for text, _ in run), base + self._looks(look) if look else base)
            for look, run in groupby(pieces, itemgetter(1))
        ]
        return Strip(segments, picture.placed.width)

    def _on_way(self, cell: Cell, place: Point) -> Cell:
        """Return a cell as it is; where the edge that is selected passes, as it is for that one alone."""
        mask = self._way.get(place)
        if mask is None or self._selected is None or cell.hit.kind == "node":
            return cell
        return Cell(mask, self._selected, cell.arrow, cell.text)

    def _cell(self, cell: Cell) -> tuple[str, str]:
        hit = cell.hit
        chosen = hit == self._selected if self._source is None else hit.key in (self._source, self._aim)
        tone = self._tones.get(hit.key, "") if hit.kind == "edge" else ""
        if chosen:
            wrong = self._source is not None and self._faint(hit)
            return cell.glyph(self._heavy), "warn" if wrong else tone or "selected"
        if self._faint(hit):
            return cell.glyph(self._dotted if hit.kind == "node" else self._glyphs), "faint"
        return cell.glyph(self._glyphs), tone or ("label" if cell.text else "line")

    def _faint(self, hit: Hit) -> bool:
        return self._source is not None and hit.key != self._source and hit.key not in self._targets

    def _inside(self, picture: Picture, key: str, line: int) -> list[tuple[str, str]]:
        """Return the text of a node in one of its lines, as wide as its inside."""
        card = self._cards.get(key, ())
        if line >= len(card):
            return [(" " * (picture.placed.boxes[key].width - 2), "")]
        faint = self._faint(Hit("node", key))
        pieces = [(text, "faint" if faint else tone) for text, tone in card[line]]
        padding = (" " * picture.padding, "")
        return [padding, *pieces, padding]

    def _rubber(self, picture: Picture) -> set[Offset]:
        """Return the cells of the line that is being drawn: across, up or down beside its end, across."""
        if self._source is None or self._aim is None or self._aim == self._source:
            return set()
        begin, end = (picture.placed.boxes[key] for key in (self._source, self._aim))
        ay, by = begin.y + begin.height // 2, end.y + end.height // 2
        if end.x > begin.x:
            ax, bx = begin.x + begin.width, end.x - 1
            turn = bx - 1
        elif end.x < begin.x:
            ax, bx = begin.x - 1, end.x + end.width
            turn = bx + 1
        else:
            ax = bx = begin.x + begin.width
            turn = bx + 1
        across = {Offset(x, ay) for x in range(min(ax, turn), max(ax, turn) + 1)}
        down = {Offset(turn, y) for y in range(min(ay, by), max(ay, by) + 1)}
        return across | down | {Offset(x, by) for x in range(min(turn, bx), max(turn, bx) + 1)}
