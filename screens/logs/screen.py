"""Logs screen: the live timeline of a project, with filter, search, record details, export and grants."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from screens.board.cards import diff_lines
from screens.console_screen import ConsoleCommand, ConsoleScreen, Tab
from screens.dialog import ConfirmDialog, ExportForm
from screens.files import Chunks, parse_path, progress_bar
from screens.logs.format import COLUMNS, NARROW, WIDE_CELLS
from screens.logs.records import RecordSelection, RecordSource, export_records, is_text_file
from screens.logs.request_view import RequestView
from screens.logs.trace import record_details
from screens.project_client import ProjectClient
from screens.tables.sql_screen import TIMELINE, SqlScreen
from screens.tables.sql_text import StatementHistory
from screens.widgets.rows import LINE_COLUMNS, TextLines, layout_columns, wrap_lines
from screens.widgets.virtual_list import GUTTER, VirtualList, VirtualRows
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural, size

_HINT = "[dim @click=screen.filter]f filter[/]"
_FILTER_CHIP = (
    "[on $panel][@click=screen.filter] [dim]$key:[/]$value[/] "
    "[@click=screen.drop_filter('{key}')][dim]×[/][/] [/]"
)
_SEARCH_CHIP = (
    "[on $panel][@click=screen.search] [dim]/[/]$search[/] [@click=screen.clear_search][dim]×[/][/] [/]"
)


class FilterLine(Input):
    """Input for a filter or a search text."""

    GROUP: ClassVar[str] = "Logs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Accept", id="logs.line-take"),
        Binding("escape", "cancel", "Back", id="logs.line-back"),
    ]

    purpose = "filter"
    """`filter` or `search`."""

    def action_cancel(self) -> None:
        self.display = False
        self.screen.query_one(VirtualRows).focus()


class LogExportForm(ExportForm):
    """Exports the filtered timeline."""

    GROUP: ClassVar[str] = "Logs"

    _count = 0

    def __init__(self, client: ProjectClient, filter: RecordSelection) -> None:
        selection = filter.words() or "all records"
        about = f"{selection}\n.jsonl writes complete JSON records; .txt and .log write text lines"

        def content(_: ExportForm, name: str) -> Chunks:
            lines = is_text_file(parse_path(name))
            return export_records(client, filter, lines=lines, on_progress=self._show_count)

        super().__init__("records", "logs.jsonl", about, content)

    def _show_count(self, records: int, share: float) -> None:
        self._count = records
        self.progress = f"{progress_bar(int(share * 1000), 1000)}  {plural(records, 'record')}"

    def outcome(self, written: int) -> str:
        return f"{plural(self._count, 'record')} ({size(written)})"


APPLIES = "svc dev applies it at once; the next deploy applies it to the service."


class GrantDialog(ConfirmDialog):
    """Asks whether to make a change, which its lines show."""

    DEFAULT_CSS = "GrantDialog > VerticalScroll { border-left: outer $primary; }"


EMPTY = "no records yet · open the project's address or `curl` it"
NO_MATCH = "No records match the filter. Press x to clear it."
EXAMPLE = "resource:api level:warn status:5xx since:1h until:10m text"
TIMELINE_SQL = """\
select path, count(*) as n, p50(wall_ms) as p50, p95(wall_ms) as p95
from requests group by path order by n desc"""
"""The statement that the SQL screen starts with."""
BAR_HZ = 5
SCROLLBAR = 1
DETAILS_SHARE = 0.4
"""Maximum share of the screen height for the record details."""


class LogsScreen(ConsoleScreen):
    """The timeline of a project."""

    TAB: ClassVar[Tab] = "logs"
    GROUP: ClassVar[str] = "Logs"
    HELP: ClassVar[str] = (
        "All requests, log records and output lines, live. Filter with words: "
        "resource:api level:warn status:5xx request:ID since:1h until:10m, or any text."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    LogsScreen {
        & #status { height: 1; padding: 0 1; }
        & #parts { width: 1fr; height: 1; text-wrap: nowrap; link-style: none; link-color: $foreground; }
        & #state { width: auto; height: 1; color: $foreground-muted; link-style: none; }
        & #state { link-color: $background; }
        & VirtualRows { height: 1fr; }
        & FilterLine { display: none; height: 1; padding: 0 1; background: $surface; }
        & #details { display: none; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="logs.search"),
        Binding("f", "filter", "Filter", id="logs.filter"),
        Binding("e", "jump(1,'error')", "Next error", id="logs.next-error"),
        Binding("E", "jump(-1,'error')", "Previous error", show=False, id="logs.previous-error"),
        Binding("w", "jump(1,'warn')", "Next warning", show=False, id="logs.next-warning"),
        Binding("W", "jump(-1,'warn')", "Previous warning", show=False, id="logs.previous-warning"),
        Binding("o", "next_of_request(1)", "Next record of request", show=False, id="logs.next-same"),
        Binding(
            "O", "next_of_request(-1)", "Previous record of request", show=False, id="logs.previous-same"
        ),
        Binding("n", "next_match(1)", "Next match", show=False, id="logs.next-found"),
        Binding("N", "next_match(-1)", "Previous match", show=False, id="logs.previous-found"),
        Binding("Q", "sql", "SQL", show=False, id="logs.sql"),
        Binding("r", "replay", "Replay", id="logs.replay"),
        Binding("p", "pause", "Pause", id="logs.pause"),
        Binding("s", "toggle_details", "Record details", show=False, id="logs.complete"),
        Binding("J", "scroll_details(1)", "Scroll details down", show=False, id="logs.complete-down"),
        Binding("K", "scroll_details(-1)", "Scroll details up", show=False, id="logs.complete-up"),
        Binding("t", "only_request", "Only this request", show=False, id="logs.only-request"),
        Binding("x,backspace", "drop_last_filter", "Drop last filter", show=False, id="logs.less"),
        Binding("A", "allow", "Allow what was denied", show=False, id="logs.allow"),
        Binding("u", "undo", "Undo a change of svc.toml", show=False, id="logs.undo"),
        Binding("y", "copy", "Copy", show=False, id="logs.copy"),
        Binding("X", "export", "Export", show=False, id="logs.export"),
        Binding("escape", "back", "Back", show=False, id="logs.back"),
    ]

    def __init__(self, client: ProjectClient, now: Callable[[], datetime] = datetime.now) -> None:
        """Create the screen. `now` determines which records are from today."""
        super().__init__(client)
        self._now = now
        self._source = self._new_source(RecordSelection())
        self._anchor_cursor: int | None = None
        self._statements = StatementHistory(None)
        self._written: list[list[Mapping[str, Any]]] = []
        """The changes of svc.toml that were written, in order."""

    def body(self) -> ComposeResult:
        """Yield the records, the details of one, and the line of the filter."""
        with Horizontal(id="status"):
            yield Static(id="parts")
            yield Static(id="state")
        yield VirtualRows(self._source, COLUMNS, head=False, live=True)
        yield VirtualList(TextLines(), LINE_COLUMNS, head=False, id="details")
        yield FilterLine(select_on_focus=False)

    def on_mount(self) -> None:
        self.set_interval(1 / BAR_HZ, self._update_state)
        self._update_filter_bar()

    def on_resize(self) -> None:
        width, room = self.size.width, 0
        if width < WIDE_CELLS:
            room = layout_columns(NARROW, width - GUTTER - SCROLLBAR)[-1].width
        old_room, self._source.room = self._source.room, room
        if bool(old_room) != bool(room):
            self.rows.set_columns(NARROW if room else COLUMNS)
        elif old_room != room:
            self.rows.reload()

    def on_unmount(self) -> None:
        self._source.stop()

    def engine_connected(self) -> None:
        """Start reading, or resume after the last record."""
        self._source.start()

    def commands(self) -> Sequence[ConsoleCommand]:
        """Return the command that filters the records."""
        about = "Filter records: resource:api level:warn status:5xx text"
        return [ConsoleCommand("filter [WORDS]", about, self.navigate)]

    def navigate(self, words: Sequence[str]) -> None:
        self._show(RecordSelection.of(words), restore_cursor=False)

    def _show(self, filter: RecordSelection, *, restore_cursor: bool = True) -> None:
        """Set another filter. The cursor stays on its record, unless the list is followed."""
        if filter == self._source.filter and self._source.complete:
            return
        self._anchor_cursor = self._cursor() if restore_cursor and not self.rows.following else None
        old = self._source
        old.stop()
        self._source = self._new_source(filter)
        self._source.room, self._source.search = old.room, old.search
        self.rows.set_source(self._source)
        self._update_filter_bar()
        if self.client.state == "live":
            self._source.start()

    def _new_source(self, filter: RecordSelection) -> RecordSource:
        return RecordSource(self.client, filter, self._on_error, self._now)

    def _on_error(self, error: SvcError) -> None:
        """Show an error of the stream. Reading resumes by itself after a lost connection."""
        if error.code != "unreachable":
            self.app.call_from_thread(self.show_error, error)

    def _update_filter_bar(self) -> None:
        """Show the parts of the filter and the search text."""
        chips, search = self._source.filter.chips(), self._source.search
        markup = ((_FILTER_CHIP.format(key=key), key, value) for key, value in chips)
        parts = [Content.from_markup(chip, key=key, value=value) for chip, key, value in markup]
        if search:
            parts.append(Content.from_markup(_SEARCH_CHIP, search=search))
        content = Content(" ").join(parts) if parts else Content.from_markup(_HINT)
        self.query_one("#parts", Static).update(content)
        self.rows.empty = NO_MATCH if chips else EMPTY

    def _update_state(self) -> None:
        """Show the number of records, of those below the visible rows, and the state of the stream."""
        source, rows = self._source, self.rows
        if shifted := source.merge_history():
            rows.shift_rows(shifted)
        if self._anchor_cursor is not None:  # Move the cursor to its former record once its row is known.
            row = source.nearest(self._anchor_cursor)
            if row is not None and row < rows.count:
                self._anchor_cursor = None
                rows.go_to(row)
        count = source.read()
        text = plural(count, "record")
        if not source.complete:
            text = f"loading {count:,}" if self.client.state == "live" else ""
        elif source.waiting() or source.paused:
            text = f"{text}   ❚❚ paused, {source.waiting():,} waiting"
        elif source.follows:
            text = f"{text}   {'following ●' if rows.following else '○ G follows'}"
        if source.dropped:
            text = f"{source.dropped:,} dropped: too many   {text}"
        new = "[b $background on $primary @click=screen.bottom] $unseen new ↓ [/]   " if rows.unseen else ""
        content = Content.from_markup(f"{new}$text", unseen=f"{rows.unseen:,}", text=text)
        self.query_one("#state", Static).update(content)

    def action_bottom(self) -> None:
        self.rows.action_bottom()

    def action_pause(self) -> None:
        self._source.pause(not self._source.paused)
        self._update_state()

    def on_virtual_list_failed(self, event: VirtualRows.Failed) -> None:
        self.notify(event.reason, severity="error", markup=False)

    def action_filter(self) -> None:
        self._prompt("filter", self._source.filter.words(), EXAMPLE)

    def action_search(self) -> None:
        self._prompt("search", self._source.search, "text to find; n and N go to the next and previous match")

    def _prompt(self, purpose: str, value: str, example: str) -> None:
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
            line.action_cancel()
            self._set_search(event.value.strip())
            self.action_next_match(-1)
            return
        with self.shown_errors():
            new_filter = RecordSelection.parse(event.value)
            line.action_cancel()
            self._show(new_filter)

    def _set_search(self, text: str) -> None:
        """Set the text to highlight; "" clears it."""
        self._source.search = text
        self._update_filter_bar()
        self.rows.reload()
        self.refresh_bindings()

    def action_clear_search(self) -> None:
        self._set_search("")

    def action_back(self) -> None:
        """Close the details; otherwise clear the search."""
        if self.query_one("#details").display:
            self.action_toggle_details()
        else:
            self.action_clear_search()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return bool(self._source.search) or (self.is_mounted and self.query_one("#details").display)
        if action in ("replay", "undo"):  # A service records no bodies and has no svc.toml.
            return self.client.info.kind != "service"
        return action != "search" or not isinstance(self.focused, FilterLine)

    def action_drop_filter(self, key: str) -> None:
        self._show(self._source.filter.without(key))

    def action_drop_last_filter(self) -> None:
        if chips := self._source.filter.chips():
            self.action_drop_filter(chips[-1][0])

    def action_sql(self) -> None:
        self.app.push_screen(SqlScreen(self.client, self._statements, TIMELINE_SQL, TIMELINE))

    def action_export(self) -> None:
        self.app.push_screen(LogExportForm(self.client, self._source.filter))

    def _cursor(self) -> int | None:
        row = self.rows.cursor_row
        return self._source.cursor(row) if row < self._source.read() else None

    @work(group="jump", exclusive=True)
    async def action_jump(self, step: int, level: str) -> None:
        await self._go_to(step, {"level": level}, f"no {level} {'below' if step > 0 else 'above'}")

    @work(group="jump", exclusive=True)
    async def action_next_match(self, step: int) -> None:
        if search := self._source.search:
            direction = "below" if step > 0 else "above"
            await self._go_to(step, {"text": search}, f'no match for "{search}" {direction}')
        else:
            self.action_search()

    @work(group="jump", exclusive=True)
    async def action_next_of_request(self, step: int) -> None:
        if request := await self._request():
            await self._go_to(step, {"request": request}, "no other record of this request there")

    async def _go_to(self, step: int, filters: Mapping[str, str], not_found_message: str) -> None:
        if (cursor := self._cursor()) is None:
            return
        target = await asyncio.to_thread(self._source.next, cursor, step, filters)
        index = self._source.index(target) if target is not None else None
        if index is not None:
            self.rows.go_to(index)
        elif self._source.complete:
            self.notify(not_found_message, markup=False, timeout=2)
        else:
            self.notify("older records are still loading; try again", timeout=2)

    async def _document(self) -> dict[str, Any] | None:
        if (cursor := self._cursor()) is not None:
            return await asyncio.to_thread(self._source.document, cursor)
        return None

    async def _request(self) -> str:
        """Return the request id of the record at the cursor; show a message and return "" if it has none."""
        document = await self._document()
        if document is not None and not document["request_id"]:
            self.notify("this record does not belong to a request", timeout=2)
        return str(document["request_id"]) if document is not None else ""

    def on_virtual_rows_moved(self) -> None:
        if self.query_one("#details").display:
            self._update_details()

    def action_toggle_details(self) -> None:
        panel = self.query_one("#details")
        panel.display = not panel.display
        self.on_virtual_rows_moved()
        self.refresh_bindings()

    @work(group="details", exclusive=True)
    async def _update_details(self) -> None:
        if (document := await self._document()) is not None:
            width = self.size.width - 2 * GUTTER
            lines = await asyncio.to_thread(lambda: wrap_lines(record_details(document), width))
            panel = self.query_one("#details", VirtualList)
            panel.styles.height = min(len(lines), max(int(self.size.height * DETAILS_SHARE), 2))
            panel.set_source(TextLines(lines))

    def action_scroll_details(self, rows: int) -> None:
        self.query_one("#details").scroll_relative(y=rows, animate=False)

    @work(group="open", exclusive=True)
    async def on_virtual_rows_opened(self) -> None:
        document = await self._document()
        if document is None:
            return
        if document["request_id"]:
            self.app.push_screen(RequestView(self.client, document["request_id"]))
        elif not self.query_one("#details").display:
            self.action_toggle_details()

    @work(group="open", exclusive=True)
    async def action_replay(self) -> None:
        if request := await self._request():
            self.app.push_screen(RequestView(self.client, request, replay=True))

    @work(group="open", exclusive=True)
    async def action_only_request(self) -> None:
        if request := await self._request():
            self._show(RecordSelection(request=request))

    @work(group="open", exclusive=True)
    async def action_allow(self) -> None:
        """Make the change that the record names if the user confirms. Raises `SvcError`."""
        if (document := await self._document()) is None:
            return
        grant = document.get("grant")
        if grant is None:
            hint = "Select a record that names the line to add to svc.toml."
            raise SvcError("nothing was denied in this record", hint)
        if not grant["edit"]:
            await self._offer_copy("A command allows this", "Run it in a terminal:", grant["line"])
        elif self.client.info.kind == "service":
            text = f"Add it to [resource.{grant['edit']['resource']}] in svc.toml, then run svc deploy:"
            await self._offer_copy("A line of svc.toml allows this", text, grant["line"])
        elif (inverse := await self._write([grant["edit"]], "Change svc.toml?")) is not None:
            self._written.append(inverse)
            self.notify("wrote svc.toml; u undoes it", markup=False, timeout=4)

    @work(group="open", exclusive=True)
    async def action_undo(self) -> None:
        """Undo the last change if the user confirms. Raises `SvcError`."""
        if not self._written:
            raise SvcError("there is no change to undo", "A writes the change that a record names.")
        if await self._write(self._written[-1], "Undo the change of svc.toml?") is not None:
            self._written.pop()
            self.notify("wrote svc.toml", timeout=2)

    async def _write(self, changes: list[Mapping[str, Any]], title: str) -> list[Mapping[str, Any]] | None:
        """Show changes and make them if the user confirms. Return what undoes them, or None."""
        plan = await self.client.call("POST", "/manifest/plan", {"changes": changes})
        if not plan["diff"]:
            raise SvcError("svc.toml allows this already", "Send the request again.")
        dialog = GrantDialog(title, APPLIES, "write svc.toml", diff_lines(plan["diff"]))
        if not await self.app.push_screen_wait(dialog):
            return None
        body = {"changes": changes, "digest": plan["digest"]}
        return list((await self.client.call("POST", "/manifest/write", body))["inverse"])

    async def _offer_copy(self, title: str, text: str, line: str) -> None:
        dialog = GrantDialog(title, text, "copy", [((line, "accent"),)])
        if await self.app.push_screen_wait(dialog):
            self.app.copy_to_clipboard(line)
            self.notify("copied", timeout=2)

    @work(group="open", exclusive=True)
    async def action_copy(self) -> None:
        if (document := await self._document()) is not None:
            self.app.copy_to_clipboard(json.dumps(document, ensure_ascii=False))
            self.notify("copied the record as JSON", timeout=2)
