"""Widgets of the Board: the diagram, the panel of details below it, and the line about the fleet.

The canvas has nodes and edges only by key. The screen supplies the diagram, the text of each node and the
tone of each edge, and handles the messages.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from rich.segment import Segment
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Click
from textual.geometry import Region, Size, Spacing
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from screens.board.cards import Line, fleet_details, fleet_line
from screens.board.diagram import EMPTY, Diagram, Direction, first_node, nearest, next_edge, next_in_direction
from screens.board.layout import DIMMED, HEAVY, UNICODE, DiagramCell, Hit, Point, polyline, route_masks
from screens.console_screen import is_working
from screens.project_client import ProjectClient
from screens.widgets.component_styles import ComponentStyles, to_content
from screens.widgets.rows import Tone
from svc_tui.client import SvcError
from svc_tui.client.fleet import ObservedFleet


class Canvas(ScrollView, can_focus=True):
    """A diagram that can be navigated and in which two nodes can be connected."""

    ALLOW_SELECT = False
    GROUP: ClassVar[str] = "Board"
    DEFAULT_CSS = """
    Canvas {
        scrollbar-size: 0 1;
        & > .canvas--line { color: $foreground 35%; }
        & > .canvas--label { color: $foreground 60%; }
        & > .canvas--selected { color: $primary; text-style: bold; }
        & > .canvas--dimmed { color: $foreground 25%; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "canvas--line", "canvas--label", "canvas--selected", "canvas--dimmed",
    }  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h,left", "move('left')", "Left", show=False, id="board.left"),
        Binding("l,right", "move('right')", "Right", show=False, id="board.right"),
        Binding("k,up", "move('up')", "Up", show=False, id="board.up"),
        Binding("j,down", "move('down')", "Down", show=False, id="board.down"),
        Binding("tab", "next_edge(1)", "Next edge", show=False, id="board.next-edge"),
        Binding("shift+tab", "next_edge(-1)", "Previous edge", show=False, id="board.edge-before"),
    ]

    class Selected(Message):
        """Another node or edge was selected."""

    class Opened(Message):
        """The selection was opened by a double click."""

    @dataclass
    class Dragged(Message):
        """The mouse is dragging a line from a node. The screen answers with `start_connecting`."""

        source: str

    class Aimed(Message):
        """The line being drawn points to another target, or to none."""

    class Ended(Message):
        """There is no item below the selected one."""

    @dataclass
    class Joined(Message):
        """The mouse was released on a node (None: elsewhere) while a line was drawn."""

        target: str | None

    def __init__(self) -> None:
        super().__init__()
        self.diagram = EMPTY
        self._cards: Mapping[str, tuple[Line, ...]] = {}
        self._tones: Mapping[str, Tone] = {}
        self.selected: Hit | None = None
        self._selected_route: Mapping[Point, int] = {}
        """The complete route of the selected edge, which may share parts with other edges."""
        self._pressed: str | None = None
        self.source: str | None = None
        """The node from which a line is being drawn."""
        self._targets: frozenset[str] = frozenset()
        self.aim: str | None = None
        """The node to which the line being drawn points."""
        self._styles = ComponentStyles(self, "canvas--")
        self._lines: dict[int, Strip] = {}
        self._rows: dict[int, dict[int, DiagramCell]] = {}

    def set_diagram(self, diagram: Diagram) -> None:
        """Show another diagram; the selection is preserved if it still exists."""
        self.diagram = diagram
        self._rows = {}
        for (x, y), cell in diagram.layout.cells.items():
            self._rows.setdefault(y, {})[x] = cell
        self.virtual_size = Size(diagram.layout.width, diagram.layout.height)
        if self.source not in diagram.layout.boxes:
            self.source = None
        if self.aim not in diagram.layout.boxes:
            self.aim = None
        if not self._contains(self.selected):
            self.selected = None
        self._invalidate()
        self.select(self.selected or first_node(diagram))

    def set_content(self, cards: Mapping[str, tuple[Line, ...]], tones: Mapping[str, Tone]) -> None:
        if (cards, tones) != (self._cards, self._tones):
            self._cards, self._tones = cards, tones
            self._invalidate()

    def _contains(self, hit: Hit | None) -> bool:
        return hit is not None and hit.key in {*self.diagram.layout.boxes, *self.diagram.layout.routes}

    def select(self, hit: Hit | None) -> None:
        """Select a node or edge of the diagram and scroll to it."""
        if hit is None or not self._contains(hit):
            return
        if hit != self.selected:
            self.selected = hit
            self._invalidate()
            self.post_message(self.Selected())
        self._scroll_to_current()

    def on_resize(self) -> None:
        # The offset does not depend on the sizes before.
        self.scroll_to(0, 0, animate=False, immediate=True)
        self._scroll_to_current()

    def _scroll_to_current(self) -> None:
        """Scroll to the target of the line being drawn, or to the selection."""
        hit = Hit("node", self.aim) if self.aim is not None else self.selected
        if hit is not None:
            region = self._region(hit)
            free = self.scrollable_content_region.size - region.size
            spacing = Spacing.unpack((min(1, free.height // 2), min(1, free.width // 2)))
            self.scroll_to_region(region, spacing=spacing, animate=False, immediate=True)

    def _region(self, hit: Hit) -> Region:
        if hit.kind == "node":
            box = self.diagram.layout.boxes[hit.key]
            return Region(box.x, box.y, box.width, box.height)
        route = self.diagram.layout.routes[hit.key]
        return Region(*route.label_at, max(len(route.label), 1), 1)

    def _invalidate(self) -> None:
        route = self.diagram.layout.routes.get(self.selected.key) if self.selected is not None else None
        self._selected_route = route_masks(route) if route is not None else {}
        self._lines.clear()
        self.refresh()

    def start_connecting(self, source: str, targets: frozenset[str], aim: str | None) -> None:
        """Start drawing a line from a node; all nodes except the targets are dimmed."""
        self.source, self._targets = source, targets
        self._set_aim(aim)
        self._invalidate()

    def stop_connecting(self) -> None:
        """Stop drawing a line."""
        self.source = self._pressed = self.aim = None
        self._invalidate()

    def _set_aim(self, key: str | None) -> None:
        self.aim = key
        self._invalidate()
        self.post_message(self.Aimed())
        self._scroll_to_current()

    def action_move(self, direction: Direction) -> None:
        """Select the next item in a direction, or the next target while a line is drawn."""
        if self.source is not None:
            keys = self.diagram.layout.boxes.keys() - {self.source}
            at = nearest(self.diagram, keys, self.aim or self.source, direction)
            self._set_aim(at if at != self.source else self.aim)
        else:
            hit = next_in_direction(self.diagram, self.selected, direction)
            if hit == self.selected and direction == "down":
                self.post_message(self.Ended())
            self.select(hit)

    def action_next_edge(self, by: int) -> None:
        """Select the next or previous edge, or target while a line is drawn."""
        if self.source is None:
            self.select(next_edge(self.diagram, self.selected, by))
        elif self._targets:
            keys = [key for key in self.diagram.layout.boxes if key in self._targets]
            at = keys.index(self.aim) if self.aim in keys else -1
            self._set_aim(keys[(at + by) % len(keys)])

    def page(self, pages: int) -> None:
        """Scroll by pages."""
        height = self.scrollable_content_region.height
        self.scroll_to(y=self.scroll_offset.y + pages * height, animate=False)

    def _at(self, event: events.MouseEvent) -> Hit | None:
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        x, y = offset + self.scroll_offset
        return self.diagram.layout.hit(x, y)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Select the item below the mouse; dragging may start here."""
        hit = self._at(event)
        if self.source is not None:
            return
        if hit is not None:
            self.select(hit)
            if hit.kind == "node":
                self._pressed = hit.key
                self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        hit = self._at(event)
        key = hit.key if hit is not None and hit.kind == "node" else None
        if self.source is None and self._pressed is not None and key != self._pressed:
            self.post_message(self.Dragged(self._pressed))
            self._pressed = None
        elif self.source is not None and key not in (None, self.source, self.aim):
            self._set_aim(key)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        self._pressed = None
        if self.source is not None:
            hit = self._at(event)
            is_target = hit is not None and hit.kind == "node" and hit.key != self.source
            self.post_message(self.Joined(hit.key if hit is not None and is_target else None))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.source is None and self._at(event) is not None:
            self.post_message(self.Opened())

    def notify_style_update(self) -> None:
        """Clear cached lines and styles."""
        super().notify_style_update()
        self._styles.clear()
        self._lines.clear()

    def render_line(self, y: int) -> Strip:
        region, offset = self.scrollable_content_region, self.scroll_offset
        row = y + offset.y
        if row not in self._lines:
            self._lines[row] = self._render_row(row)
        return self._lines[row].crop_extend(offset.x, offset.x + region.width, self.rich_style)

    def _render_row(self, y: int) -> Strip:
        diagram = self.diagram
        if y >= diagram.layout.height:
            return Strip([])
        base, row = self.rich_style, self._rows.get(y, {})
        inside = {
            box.x: (key, box)
            for key, box in diagram.layout.boxes.items()
            if box.y < y < box.y + box.height - 1
        }
        free = (x for x, at in self._rubber_band() if at == y)
        rubber = {x for x in free if x not in row or row[x].hit.kind == "edge"}
        pieces: list[tuple[str, str]] = []
        end = 0
        for x in sorted({*row, *rubber}):
            if x < end:
                continue  # Inside a node, whose text was already added.
            pieces.append((" " * (x - end), ""))
            end = x + 1
            if x in rubber:
                pieces.append(("·", "selected"))
                continue
            cell = row[x]
            if self.selected is not None and cell.hit.kind == "edge" and (x, y) in self._selected_route:
                cell = cell._replace(mask=self._selected_route[x, y], hit=self.selected)
            pieces.append(self._cell(cell))
            if x in inside:
                key, box = inside[x]
                end = x + box.width
                pieces += [*self._card_line(key, y - box.y - 1), self._cell(row[end - 1])]
        pieces.append((" " * (diagram.layout.width - end), ""))
        segments = [
            Segment("".join(text for text, _ in run), base + self._styles(tone) if tone else base)
            for tone, run in groupby(pieces, itemgetter(1))
        ]
        return Strip(segments, diagram.layout.width)

    def _cell(self, cell: DiagramCell) -> tuple[str, str]:
        hit = cell.hit
        is_selected = hit == self.selected if self.source is None else hit.key in (self.source, self.aim)
        tone = self._tones.get(hit.key, "") if hit.kind == "edge" else ""
        if is_selected:
            wrong = self.source is not None and self._is_dimmed(hit)
            return cell.glyph(HEAVY), "warn" if wrong else tone or "selected"
        if self._is_dimmed(hit):
            return cell.glyph(DIMMED if hit.kind == "node" else UNICODE), "dimmed"
        return cell.glyph(), tone or ("label" if cell.text else "line")

    def _is_dimmed(self, hit: Hit) -> bool:
        return self.source is not None and hit.key != self.source and hit.key not in self._targets

    def _card_line(self, key: str, line: int) -> list[tuple[str, str]]:
        """Return one line of a node's text, padded to the width of the node."""
        card = self._cards.get(key, ())
        if line >= len(card):
            return [(" " * (self.diagram.layout.boxes[key].width - 2), "")]
        faint = self._is_dimmed(Hit("node", key))
        pieces = [(text, "dimmed" if faint else tone) for text, tone in card[line]]
        padding = (" " * self.diagram.padding, "")
        return [padding, *pieces, padding]

    def _rubber_band(self) -> set[Point]:
        """Return the cells of the line being drawn: horizontal, vertical beside its target, horizontal."""
        if self.source is None or self.aim is None or self.aim == self.source:
            return set()
        begin, end = (self.diagram.layout.boxes[key] for key in (self.source, self.aim))
        ay, by = begin.y + begin.height // 2, end.y + end.height // 2
        if end.x > begin.x:
            ax, bx = begin.x + begin.width, end.x - 1
            turn_x = bx - 1
        elif end.x < begin.x:
            ax, bx = begin.x - 1, end.x + end.width
            turn_x = bx + 1
        else:
            ax = bx = begin.x + begin.width
            turn_x = bx + 1
        corners = ((ax, ay), (turn_x, ay), (turn_x, by), (bx, by))
        return {point for point, _ in polyline([corner for corner, _ in groupby(corners)])}


class PanelInput(Input):
    """The input of the panel."""

    GROUP: ClassVar[str] = "Board"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Accept", id="board.take")]


class DetailsPanel(Vertical):
    """A panel that is hidden until it has content."""

    DEFAULT_CSS = """
    DetailsPanel {
        display: none; height: auto; max-height: 50%;
        border-top: solid $foreground 20%; border-title-color: $foreground; border-title-style: bold;
        border-title-background: $background; padding: 0 1;
        &.fills { height: 1fr; max-height: 100%; }
        &.fills > VerticalScroll { height: 1fr; }
        & > Input { display: none; background: $background; }
        & > Input:focus { background-tint: $foreground 0%; }
        & > VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        & Static { height: auto; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        yield PanelInput(compact=True, select_on_focus=False)
        with VerticalScroll(can_focus=False):  # The keys of the screen scroll it.
            yield Static()

    @property
    def prompting(self) -> bool:
        return self.display and self.query_one(PanelInput).display

    @property
    def line_width(self) -> int:
        """The width of a line without the scrollbar, in cells."""
        return self.screen.size.width - 4

    def show(self, title: str, lines: Iterable[Line]) -> None:
        """Show a title and a text; a visible input stays."""
        self.border_title = f" {title} "
        self.set_lines(lines)

    def set_lines(self, lines: Iterable[Line]) -> None:
        """Show a text below the current title."""
        self.display = True
        if (content := list(lines)) != self._lines:
            self._lines = content
            self.query_one(Static).update(to_content(content))

    def prompt(self, title: str, value: str) -> None:
        """Show an input with a title and an initial value."""
        self.show(title, ())
        line = self.query_one(PanelInput)
        line.value = value
        line.cursor_position = len(value)
        line.display = True
        line.focus()

    def hide_input(self) -> None:
        self.query_one(PanelInput).display = False

    def close(self) -> None:
        """Hide the panel and its input."""
        self.hide_input()
        self.display = False

    def page(self, pages: int) -> bool:
        """Scroll the text by pages. Return False if all of it is visible."""
        text = self.query_one(VerticalScroll)
        if not self.display or not text.max_scroll_y:
            return False
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height - 1, 1), animate=False)
        return True


POLL_SECONDS = 2.0
PADDING = 2
"""Cells beside the line."""


class FleetLine(Static, can_focus=True):
    """One line about the fleet of a service, which opens its details; hidden outside of a fleet.

    It polls by itself: nodes that are away delay the answer.
    """

    GROUP: ClassVar[str] = "Board"
    DEFAULT_CSS = """
    FleetLine {
        display: none; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
        &:hover { background: $surface; }
        &:focus { background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.nodes", "Open", id="board.open-nodes"),
        Binding("k,up,tab,shift+tab", "screen.focus_diagram", "Up", show=False, id="board.leave-nodes"),
    ]

    class Updated(Message):
        """The state of the fleet was fetched."""

    def __init__(self, client: ProjectClient) -> None:
        super().__init__()
        self._client = client
        self.fleet: ObservedFleet | None = None
        """The fleet that serves the project."""

    def on_mount(self) -> None:
        if self._client.info.kind == "service":
            self.set_interval(POLL_SECONDS, self.fetch)

    def on_resize(self) -> None:
        self._draw()

    def fetch(self) -> None:
        """Fetch and show the state of the fleet of a service, unless another screen is shown."""
        live = self._client.info.kind == "service" and self._client.state == "live"
        if live and self.screen.is_current and not is_working(self, "fleet"):
            self._fetch()

    @work(group="fleet")
    async def _fetch(self) -> None:
        with suppress(SvcError):  # The Board shows errors, and the next poll may succeed.
            document = (await self._client.call("GET", "/fleet"))["fleet"]
            self.fleet = ObservedFleet.from_json(document) if document is not None else None
            self.display = self.fleet is not None
            self._draw()
            self.post_message(self.Updated())

    def _draw(self) -> None:
        if self.fleet is not None:
            room = self.screen.size.width - PADDING
            self.update(to_content([fleet_line(self.fleet, room)]))

    def details(self, room: int) -> tuple[str, list[Line]] | None:
        return fleet_details(self.fleet, room) if self.fleet is not None else None

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.run_action("screen.nodes")
