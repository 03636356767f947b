"""The Logs tab: the timeline of a Project as it grows, filtered, searched, followed.

Owns the keys and what is chosen; which records there are is `timeline.py`'s, a line of one `rows.py`'s, a
request as a whole `request_view.py`'s.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from screens.console_screen import Command, ConsoleScreen, Tab
from screens.logs.export_form import ExportForm
from screens.logs.filter import Filter
from screens.logs.format import COLUMNS, NARROW, WIDE
from screens.logs.record_source import Timeline
from screens.logs.request_view import NOT_HERE, RequestView
from screens.logs.status_bar import Bar, FilterLine, Pill
from screens.logs.trace import whole
from screens.project_client import ProjectClient
from screens.widgets.columns import layout_columns
from screens.widgets.lines import LINE_COLUMNS, TextLines, wrap_lines
from screens.widgets.virtual_list import GUTTER, VirtualList
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError

EMPTY = "nothing has happened here yet · open the Project's address, or `curl` it"
NOTHING = "nothing that is recorded passes the filter · x takes it away"
EXAMPLE = "resource:api level:warn status:5xx since:1h until:10m text"
BAR_HZ = 5
SCROLLBAR = 1
WHOLE_SHARE = 0.4
"""How much of the screen a record below the list takes at most."""


class LogsScreen(ConsoleScreen):
    """The timeline."""

    TAB: ClassVar[Tab] = "logs"
    GROUP: ClassVar[str] = "Logs"
    HELP: ClassVar[str] = (
        "Every request, record and line that a Resource printed, as they come. Filters are words:\n"
        "resource:api level:warn status:5xx request:ID since:1h until:10m, and any text."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    LogsScreen {
        layers: base above;
        & VirtualRows { height: 1fr; }
        & FilterLine { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
        & FilterLine:focus { border: none; }
        & #whole { display: none; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/", id="logs.search"),
        Binding("f", "filter", "Filter", id="logs.filter"),
        Binding("e", "jump(1,'error')", "Error", id="logs.next-error"),
        Binding("E", "jump(-1,'error')", "Error before", show=False, id="logs.previous-error"),
        Binding("w", "jump(1,'warn')", "Next warning", show=False, id="logs.next-warning"),
        Binding("W", "jump(-1,'warn')", "Warning before", show=False, id="logs.previous-warning"),
        Binding("o", "same(1)", "Same request", show=False, id="logs.next-same"),
        Binding("O", "same(-1)", "Same request before", show=False, id="logs.previous-same"),
        Binding("n", "found(1)", "Next found", show=False, id="logs.next-found"),
        Binding("N", "found(-1)", "Found before", show=False, id="logs.previous-found"),
        Binding("r", "replay", "Replay", id="logs.replay"),
        Binding("p", "pause", "Pause", id="logs.pause"),
        Binding("s", "whole", "Whole record", show=False, id="logs.whole"),
        Binding("J", "scroll_whole(1)", "Record: down", show=False, id="logs.whole-down"),
        Binding("K", "scroll_whole(-1)", "Record: up", show=False, id="logs.whole-up"),
        Binding("t", "only_request", "Only this request", show=False, id="logs.only-request"),
        Binding("x,backspace", "less", "Less filter", show=False, id="logs.less"),
        Binding("y", "copy", "Copy", show=False, id="logs.copy"),
        Binding("X", "export", "Export", show=False, id="logs.export"),
        Binding("escape", "back", "Back", show=False, id="logs.back"),
    ]

    def __init__(self, link: ProjectClient, now: Callable[[], datetime] = datetime.now) -> None:
        """`now` says which records are not of today."""
        super().__init__(link)
        self._now = now
        self._timeline = Timeline(link, Filter(), self._failed, now)
        self._anchor: int | None = None

    def body(self) -> ComposeResult:
        """Place the chips, the list, the line for words, and the record as a whole."""
        yield Bar()
        yield VirtualRows(self._timeline, COLUMNS, head=False, live=True)
        yield VirtualList(TextLines(), LINE_COLUMNS, head=False, id="whole")
        yield FilterLine(select_on_focus=False)
        yield Pill()

    def on_mount(self) -> None:
        """Keep what stands beside the list true."""
        self.set_interval(1 / BAR_HZ, self._tell_state)
        self.watch(self.rows, "unseen", self._tell_unseen, init=False)
        self._tell_parts()

    def on_resize(self) -> None:
        """Have the lines fit the screen."""
        room = (
            layout_columns(NARROW, self.size.width - GUTTER - SCROLLBAR)[-1].width
            if self.size.width < WIDE
            else 0
        )
        was, self._timeline.room = self._timeline.room, room
        if bool(was) != bool(room):
            self.rows.set_columns(NARROW if room else COLUMNS)
        elif was != room:
            self.rows.reload()

    def on_unmount(self) -> None:
        """Read no more."""
        self._timeline.end()

    def engine_connected(self) -> None:
        """Begin to read, or go on behind what was read."""
        self._timeline.begin()

    @property
    def rows(self) -> VirtualRows:
        """The list."""
        return self.query_one(VirtualRows)

    def commands(self) -> Sequence[Command]:
        """Return what Logs can be told in words."""
        return [
            Command(
                "filter [WORDS]", "Show what passes: resource:api level:warn status:5xx text", self.navigate
            )
        ]

    def navigate(self, words: Sequence[str]) -> None:
        """Show what words say, from now on."""
        self._show(Filter.of(words), stay=False)

    # What is shown

    def _show(self, filter: Filter, *, stay: bool = True) -> None:
        """Show what passes another filter, and stay where one is unless the list is followed."""
        if filter == self._timeline.filter and self._timeline.whole:
            return
        self._anchor = self._cursor() if stay and not self.rows.following else None
        before = self._timeline
        before.end()
        self._timeline = Timeline(self.client, filter, self._failed, self._now)
        self._timeline.room, self._timeline.sought = before.room, before.sought
        self.rows.set_source(self._timeline)
        self._tell_parts()
        if self.client.state == "live":
            self._timeline.begin()

    def _failed(self, error: SvcError) -> None:
        """Tell of a stream that ended; one that was cut is taken up when the engine is back."""
        if error.code != "unreachable":
            self.app.call_from_thread(self.show_error, error)

    def _tell_parts(self) -> None:
        chips = self._timeline.filter.chips()
        self.query_one(Bar).tell_parts(chips, self._timeline.sought)
        self.rows.empty = NOTHING if chips else EMPTY

    def _tell_state(self) -> None:
        timeline = self._timeline
        if shifted := timeline.settle():
            self.rows.shift_rows(shifted)
        self._go_back()
        live = self.client.state == "live"
        self.query_one(Bar).tell_state(timeline, live=live, following=self.rows.following)

    def _go_back(self) -> None:
        """Have the cursor be where it was in the rows of another filter, once it is known where that is."""
        if self._anchor is None or (row := self._timeline.nearest(self._anchor)) is None:
            return
        if row < self.rows.count:
            self._anchor = None
            self.rows.go_to(row)

    def _tell_unseen(self, unseen: int) -> None:
        panel = self.query_one("#whole")
        below = int(panel.styles.height.value) if panel.display and panel.styles.height is not None else 0
        self.query_one(Pill).tell(unseen, below)

    def action_bottom(self) -> None:
        """Follow again."""
        self.rows.action_bottom()

    def action_pause(self) -> None:
        """Show nothing that comes, or all of it."""
        self._timeline.pause(not self._timeline.paused)
        self._tell_state()

    def on_virtual_list_failed(self, event: VirtualRows.Failed) -> None:
        """Tell that rows could not be had."""
        self.notify(event.reason, severity="error", markup=False)

    # Words

    def action_filter(self) -> None:
        """Write a filter."""
        self._ask("filter", self._timeline.filter.words(), EXAMPLE)

    def action_search(self) -> None:
        """Write what to search."""
        self._ask("search", self._timeline.sought, "text to be found; n and N go from one to the next")

    def _ask(self, purpose: str, value: str, example: str) -> None:
        line = self.query_one(FilterLine)
        line.purpose = purpose
        line.value, line.placeholder = value, example
        line.cursor_position = len(value)
        line.display = True
        line.focus()

    @on(Input.Submitted, "FilterLine")
    def _answered(self, event: Input.Submitted) -> None:
        line = self.query_one(FilterLine)
        if line.purpose == "search":
            line.action_leave()
            self._seek(event.value.strip())
            self.action_found(-1)
            return
        try:
            wanted = Filter.parse(event.value)
        except SvcError as error:
            self.show_error(error)
            return
        line.action_leave()
        self._show(wanted)

    def _seek(self, text: str) -> None:
        """Have a text stand out, or none."""
        self._timeline.sought = text
        self._tell_parts()
        self.rows.reload()
        self.refresh_bindings()

    def action_forget(self) -> None:
        """Search nothing any more."""
        self._seek("")

    def action_back(self) -> None:
        """Close the record below the list, or else search nothing any more."""
        if self.query_one("#whole").display:
            self.action_whole()
        else:
            self.action_forget()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys that do nothing now."""
        if action == "back":
            return bool(self._timeline.sought) or (self.is_mounted and self.query_one("#whole").display)
        return action != "search" or not isinstance(self.focused, FilterLine)

    def action_without(self, key: str) -> None:
        """Take one part of the filter away."""
        self._show(self._timeline.filter.without(key))

    def action_less(self) -> None:
        """Take the last part of the filter away."""
        if chips := self._timeline.filter.chips():
            self.action_without(chips[-1][0])

    def action_export(self) -> None:
        """Write what passes the filter to a file."""
        self.app.push_screen(ExportForm(self.client, self._timeline.filter))

    # Jumps

    def _cursor(self) -> int | None:
        row = self.rows.cursor_row
        return self._timeline.cursor(row) if row < self._timeline.read() else None

    def action_jump(self, step: int, level: str) -> None:
        """Go to the next record of a level, or above."""
        self._jump(step, {"level": level}, f"no {level} {'further down' if step > 0 else 'further up'}")

    def action_found(self, step: int) -> None:
        """Go to the next record in which the text is found."""
        if sought := self._timeline.sought:
            where = "further down" if step > 0 else "further up"
            self._jump(step, {"text": sought}, f'"{sought}" is not found {where}')
        else:
            self.action_search()

    def action_same(self, step: int) -> None:
        """Go to the next record of the same request."""
        self.run_worker(self._same(step), group="jump", exclusive=True)

    async def _same(self, step: int) -> None:
        if request := await self._request():
            await self._go_to(step, {"request": request}, "the request has no other record there")

    def _jump(self, step: int, more: Mapping[str, str], otherwise: str) -> None:
        self.run_worker(self._go_to(step, more, otherwise), group="jump", exclusive=True)

    async def _go_to(self, step: int, more: Mapping[str, str], otherwise: str) -> None:
        if (cursor := self._cursor()) is None:
            return
        try:
            found = await asyncio.to_thread(self._timeline.next, cursor, step, more)
        except SvcError as error:
            self.show_error(error)
            return
        index = self._timeline.index(found) if found is not None else None
        if index is None:
            otherwise = otherwise if self._timeline.whole else "older records are being read; try again"
            self.notify(otherwise, markup=False, timeout=2)
            return
        self.rows.go_to(index)

    # One record

    async def _document(self) -> dict[str, Any] | None:
        """Return the record that the cursor is on."""
        if (cursor := self._cursor()) is None:
            return None
        try:
            return await asyncio.to_thread(self._timeline.document, cursor)
        except SvcError as error:
            self.show_error(error)
            return None

    async def _request(self) -> str:
        """Return the id of the cursor's request; empty, and told, where the record is of none."""
        document = await self._document()
        if document is not None and not document["request_id"]:
            self.notify("this record belongs to no request", timeout=2)
        return str(document["request_id"]) if document is not None else ""

    def on_virtual_rows_moved(self) -> None:
        """Have the record below the list be that of the cursor."""
        if self.query_one("#whole").display:
            self.run_worker(self._tell_whole(), group="whole", exclusive=True)

    def action_whole(self) -> None:
        """Show the whole record below the list, or no longer."""
        panel = self.query_one("#whole")
        panel.display = not panel.display
        self.on_virtual_rows_moved()
        self._tell_unseen(self.rows.unseen)
        self.refresh_bindings()

    async def _tell_whole(self) -> None:
        if (document := await self._document()) is not None:
            width = self.size.width - 2 * GUTTER
            lines = await asyncio.to_thread(lambda: wrap_lines(whole(document), width))
            panel = self.query_one("#whole", VirtualList)
            panel.styles.height = min(len(lines), max(int(self.size.height * WHOLE_SHARE), 2))
            panel.set_source(TextLines(lines))
            self._tell_unseen(self.rows.unseen)

    def action_scroll_whole(self, rows: int) -> None:
        """Scroll the record below the list."""
        self.query_one("#whole").scroll_relative(y=rows, animate=False)

    def on_virtual_rows_opened(self) -> None:
        """Show the request, or the record where it is of none."""
        self.run_worker(self._open(), group="open", exclusive=True)

    async def _open(self) -> None:
        document = await self._document()
        if document is None:
            return
        if document["request_id"]:
            self.app.push_screen(RequestView(self.client, document["request_id"]))
        elif not self.query_one("#whole").display:
            self.action_whole()

    def action_replay(self) -> None:
        """Send the request of this record anew."""
        if self.client.info.kind == "service":
            self.show_error(NOT_HERE)
            return
        self.run_worker(self._replay(), group="open", exclusive=True)

    async def _replay(self) -> None:
        if request := await self._request():
            self.app.push_screen(RequestView(self.client, request, replay=True))

    def action_only_request(self) -> None:
        """Show the records of this request only."""
        self.run_worker(self._only_request(), group="open", exclusive=True)

    async def _only_request(self) -> None:
        if request := await self._request():
            self._show(Filter(request=request))

    def action_copy(self) -> None:
        """Copy the record as JSON."""
        self.run_worker(self._copy(), group="open", exclusive=True)

    async def _copy(self) -> None:
        if (document := await self._document()) is not None:
            self.app.copy_to_clipboard(json.dumps(document, ensure_ascii=False))
            self.notify("the record is in the clipboard, as JSON", timeout=2)
