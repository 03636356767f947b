"""Request view: spans and records of one request, and its replay."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from screens.console_screen import KeyFooter, StopWorkersFirst
from screens.dialog import ConfirmDialog
from screens.files import edit_text, editor_command
from screens.logs.exchange import compare, curl_command, exchange_lines, parse_request, request_text
from screens.logs.format import began
from screens.logs.trace import lines
from screens.project_client import ProjectClient
from screens.tables.dialogs import RowsWritten, written_lines
from screens.widgets.rows import LINE_COLUMNS, Line, TextLines, wrap_lines
from screens.widgets.virtual_list import GUTTER, VirtualList
from svc_tui.client import SvcError

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods replayed without confirmation: they are safe (RFC 9110, section 9.2.1)."""
MARGIN = 2 * GUTTER
"""Cells beside the text."""


class RequestView(StopWorkersFirst, Screen[None]):
    """Shows one request."""

    GROUP: ClassVar[str] = "Request"
    AUTO_FOCUS = None
    DEFAULT_CSS = """
    RequestView { background: $background; }
    RequestView > #title { height: 1; background: $panel; padding: 0 1; text-style: bold; }
    RequestView > VirtualList { height: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "replay", "Replay", id="request.replay"),
        Binding("e", "resend", "Edit and resend", id="request.resend"),
        Binding("c", "curl", "Copy as curl", id="request.curl"),
        Binding("w", "rows", "Rows written", id="request.rows"),
        Binding("escape,q", "back", "Back", id="request.back"),
        Binding("j,down", "scroll(1)", "Down", show=False, id="request.down"),
        Binding("k,up", "scroll(-1)", "Up", show=False, id="request.up"),
        Binding("g,home", "end(-1)", "Top", show=False, id="request.top"),
        Binding("G,end", "end(1)", "Bottom", show=False, id="request.bottom"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="request.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="request.page-up"),
        Binding("y", "copy", "Copy id", show=False, id="request.copy"),
    ]

    def __init__(self, client: ProjectClient, request_id: str, *, replay: bool = False) -> None:
        """Create the view. If `replay` is set, it starts with the replay."""
        super().__init__()
        self._client, self._request, self._replays = client, request_id, replay
        self._records: Sequence[Any] = ()
        self._exchange: Any = None
        self._pair: tuple[Any, Any] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield VirtualList(TextLines(), LINE_COLUMNS, head=False, empty="…")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#title", Static).update(Content(f"request {self._request}"))
        if self._replays:
            self.action_replay()
        else:
            self._show()

    def on_resize(self) -> None:
        self._draw()

    @work(exclusive=True)
    async def _show(self) -> None:
        await self._fetch()

    async def _fetch(self) -> None:
        params = {"request": self._request}
        try:
            read = self._client.lines("GET", "/logs", params=params)
            documents = await asyncio.to_thread(list, read)
        except SvcError as error:
            self._show_text(error.message, error.hint)
            return
        self._records = [document for document in documents if "kind" in document]
        self._draw()
        if self._client.info.kind != "service":
            with suppress(SvcError):  # not recorded, or removed since
                self._exchange = await self._client.call("GET", f"/requests/{self._request}")
                self._draw()
                self.refresh_bindings()

    @work(group="draw", exclusive=True)
    async def _draw(self) -> None:
        """Lay out the request or the comparison in a thread: it may have thousands of lines."""
        if self._pair is None and not self._records:
            return
        width, pair, records = self.size.width - MARGIN, self._pair, self._records
        exchange = self._exchange

        def lay_out() -> list[Line]:
            if pair is not None:
                return wrap_lines(compare(*pair, width), width)
            messages = [[], *exchange_lines(exchange)] if exchange is not None else []
            return wrap_lines([*lines(records, width), *messages], width)

        self._text.set_source(TextLines(await asyncio.to_thread(lay_out)))

    @property
    def _text(self) -> VirtualList:
        return self.query_one(VirtualList)

    def _show_text(self, *texts: str) -> None:
        lines = wrap_lines([[(text, "")] for text in texts if text], self.size.width - MARGIN)
        self._text.set_source(TextLines(lines))

    @work(exclusive=True, group="rows")
    async def action_rows(self) -> None:
        try:
            found = await self._client.call("GET", "/tables/history", params={"request": self._request})
        except SvcError as error:
            self.notify(error.text, severity="error", markup=False)
        else:
            began_ns = min(map(began, self._records), default=0)
            self.app.push_screen(RowsWritten(partial(written_lines, found, began_ns)))

    @work(exclusive=True)
    async def action_replay(self) -> None:
        """Replay the request, after a confirmation if its method is not safe."""
        try:
            before = await self._client.call("GET", f"/requests/{self._request}")
            method, target = before["request"]["method"], before["request"]["target"]
            if method not in SAFE_METHODS:
                text = "It can change data: it runs against the working copy and its tables."
                question = ConfirmDialog(f"Send {method} {target} again?", text, "send")
                if not await self.app.push_screen_wait(question):
                    if not self._records:
                        await self._fetch()
                    return
            self._show_text(f"{method} {target} …")
            after = await self._client.call("POST", f"/requests/{self._request}/replay")
        except SvcError as error:
            self._show_text(error.message, error.hint)
            return
        self._pair = before, after
        self.query_one("#title", Static).update(Content(f"replay of {method} {target}"))
        self._draw()

    @work(exclusive=True)
    async def action_resend(self) -> None:
        """Edit the request in the user's editor, while the Console is suspended, and send it."""
        try:
            text = request_text(self._exchange["request"])
            command = editor_command(os.environ)
            with self.app.suspend():
                edited = edit_text(text, "request.http", command)
            if edited is None:
                self.notify("the request is unchanged; r sends it again", timeout=3)
                return
            request = parse_request(edited)
            self._show_text(f"{request['method']} {request['target']} …")
            after = await self._client.call("POST", f"/requests/{self._request}/resend", request)
        except ValueError as error:
            self.notify(f"the request was not sent: {error}", severity="error", markup=False)
        except SvcError as error:
            self.notify(error.text, severity="error", markup=False)
            self._draw()
        else:
            self._pair = self._exchange, after
            title = Content(f"edited: {request['method']} {request['target']}")
            self.query_one("#title", Static).update(title)
            self._draw()

    def action_back(self) -> None:
        if self._pair is not None and self._records:
            self._pair = None
            self.query_one("#title", Static).update(Content(f"request {self._request}"))
            self._draw()
        else:
            self.dismiss()

    def action_scroll(self, rows: int) -> None:
        self._text.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_scroll(pages * self._text.size.height)

    def action_end(self, end: int) -> None:
        self._text.scroll_to(y=self._text.max_scroll_y if end > 0 else 0, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions on the recorded request while none is known, and replays at a service."""
        if action == "replay":
            return self._client.info.kind != "service"
        return action not in ("curl", "resend") or self._exchange is not None

    def action_curl(self) -> None:
        try:
            command = curl_command(self._exchange["request"])
        except ValueError as error:
            self.notify(f"cannot copy as curl: {error}", severity="warning", markup=False)
            return
        self.app.copy_to_clipboard(command)
        self.notify("copied the curl command; redacted fields are not in it", timeout=3)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._request)
        self.notify("copied the request id", timeout=2)
