"""One request over the whole screen: its spans and records; and its replay beside it."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from screens.console_screen import StopWorkersFirst
from screens.dialog import ConfirmDialog
from screens.logs.replay import compare
from screens.logs.trace import lines
from screens.project_client import ProjectClient
from screens.widgets.lines import LINE_COLUMNS, TextLines, wrap_lines
from screens.widgets.row_source import Line
from screens.widgets.virtual_list import GUTTER, VirtualList
from svc_tui.client import SvcError

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose replay asks for no leave: they change nothing (RFC 9110, 9.2.1)."""
MARGIN = 2 * GUTTER
"""Cells beside the text."""


NOT_HERE = SvcError(
    "a service replays no requests: it records no bodies",
    "In development it works: run `svc` in the Project's folder, and r on a request there.",
    code="not-replayable",
)


class RequestView(StopWorkersFirst, ModalScreen[None]):
    """Shows a request by its id."""

    GROUP: ClassVar[str] = "Request"
    AUTO_FOCUS = None
    DEFAULT_CSS = """
    RequestView { background: $background; }
    RequestView > #title { height: 1; background: $panel; padding: 0 1; text-style: bold; }
    RequestView > VirtualList { height: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "replay", "Replay", id="request.replay"),
        Binding("escape,q", "back", "Back", id="request.back"),
        Binding("j,down", "scroll(1)", "Down", show=False, id="request.down"),
        Binding("k,up", "scroll(-1)", "Up", show=False, id="request.up"),
        Binding("g,home", "end(-1)", "Beginning", show=False, id="request.top"),
        Binding("G,end", "end(1)", "End", show=False, id="request.bottom"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="request.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="request.page-up"),
        Binding("y", "copy", "Copy the id", show=False, id="request.copy"),
    ]

    def __init__(self, link: ProjectClient, request_id: str, *, replay: bool = False) -> None:
        """`replay` begins with that."""
        super().__init__()
        self._link, self._request, self._replays = link, request_id, replay
        self._records: Sequence[Any] = ()
        self._pair: tuple[Any, Any] | None = None
        self._said = "…"

    def compose(self) -> ComposeResult:
        """Place the title, the text and the keys."""
        yield Static(id="title")
        yield VirtualList(TextLines(), LINE_COLUMNS, head=False, empty="…")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Fetch the request."""
        self.query_one("#title", Static).update(Content(f"request {self._request}"))
        if self._replays:
            self.action_replay()
        else:
            self.run_worker(self._fetch(), exclusive=True)

    def on_resize(self) -> None:
        """Lay it out anew."""
        self._draw()

    async def _fetch(self) -> None:
        params = {"request": self._request}
        try:
            found = await asyncio.to_thread(lambda: list(self._link.lines("GET", "/logs", params=params)))
        except SvcError as error:
            self._tell(error)
            return
        self._records = [document for document in found if "kind" in document]
        self._draw()

    def _draw(self) -> None:
        if self._pair is not None or self._records:
            self.run_worker(self._lay_out(), group="draw", exclusive=True)

    async def _lay_out(self) -> None:
        """Show the request, or both; laying out thousands of lines takes its time."""
        width, pair, records = self.size.width - MARGIN, self._pair, self._records

        def lay_out() -> list[Line]:
            return wrap_lines(compare(*pair, width) if pair is not None else lines(records, width), width)

        self._text.set_source(TextLines(await asyncio.to_thread(lay_out)))

    @property
    def _text(self) -> VirtualList:
        return self.query_one(VirtualList)

    def _say(self, *said: str) -> None:
        self._text.set_source(
            TextLines(wrap_lines([[(text, "")] for text in said if text], self.size.width - MARGIN))
        )

    def _tell(self, error: SvcError) -> None:
        self._say(error.message, error.hint)

    def action_replay(self) -> None:
        """Send the request anew, and ask first where that may change something."""
        if self._link.info.kind == "service":
            self.notify(f"{NOT_HERE.message}\n{NOT_HERE.hint}", severity="warning", markup=False)
            return
        self.run_worker(self._replay(), exclusive=True)

    async def _replay(self) -> None:
        try:
            before = await self._link.call("GET", f"/requests/{self._request}")
        except SvcError as error:
            self._tell(error)
            return
        method, target = before["request"]["method"], before["request"]["target"]
        if method not in SAFE:
            question = ConfirmDialog(
                f"Send {method} {target} once more?",
                "What it changes, it changes again: it runs against the working copy and its tables.",
                "send it",
            )
            if not await self.app.push_screen_wait(question):
                if not self._records:
                    await self._fetch()
                return
        self._say(f"{method} {target} …")
        try:
            after = await self._link.call("POST", f"/requests/{self._request}/replay")
        except SvcError as error:
            self._tell(error)
            return
        self._pair = before, after
        self.query_one("#title", Static).update(Content(f"replay of {method} {target}"))
        self._draw()

    def action_back(self) -> None:
        """Go back to the records from a replay that was asked for here, else to the list."""
        if self._pair is not None and self._records:
            self._pair = None
            self.query_one("#title", Static).update(Content(f"request {self._request}"))
            self._draw()
        else:
            self.dismiss()

    def action_scroll(self, rows: int) -> None:
        """Scroll by rows."""
        self._text.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by what the screen shows."""
        self.action_scroll(pages * self._text.size.height)

    def action_end(self, end: int) -> None:
        """Scroll to an end."""
        self._text.scroll_to(y=self._text.max_scroll_y if end > 0 else 0, animate=False)

    def action_copy(self) -> None:
        """Copy the request's id."""
        self.app.copy_to_clipboard(self._request)
        self.notify("the request's id is in the clipboard", timeout=2)
