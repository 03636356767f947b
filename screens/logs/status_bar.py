"""Widgets around the log list: filter input and status bar."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from screens.logs.record_source import RecordSource
from screens.widgets.virtual_list import VirtualRows
from svc_tui.terminal.units import plural

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
        """Hide the input without a change."""
        self.display = False
        self.screen.query_one(VirtualRows).focus()


class StatusBar(Horizontal):
    """The parts of the filter, removable by a click, and the number of records."""

    DEFAULT_CSS = """
    StatusBar {
        height: 1; padding: 0 1;
        & > #parts { width: 1fr; height: 1; text-wrap: nowrap; link-style: none; link-color: $foreground; }
        & > #state { width: auto; height: 1; color: $foreground-muted; link-style: none; }
        & > #state { link-color: $background; }
    }
    """

    def compose(self) -> ComposeResult:
        """Compose both halves."""
        yield Static(id="parts")
        yield Static(id="state")

    def show_filter(self, chips: Sequence[tuple[str, str]], search: str) -> None:
        """Show the parts of the filter and the search text."""
        parts = [
            Content.from_markup(_FILTER_CHIP.format(key=key), key=key, value=value) for key, value in chips
        ]
        if search:
            parts.append(Content.from_markup(_SEARCH_CHIP, search=search))
        self.query_one("#parts", Static).update(
            Content(" ").join(parts) if parts else Content.from_markup(_HINT)
        )

    def show_state(self, source: RecordSource, *, live: bool, following: bool, unseen: int) -> None:
        """Show the number of records, of those below the visible rows, and the state of the stream."""
        count = source.read()
        text = plural(count, "record")
        if not source.complete:
            text = f"loading {count:,}" if live else ""
        elif source.waiting() or source.paused:
            text = f"{text}   ❚❚ paused, {source.waiting():,} waiting"
        elif source.follows:
            text = f"{text}   {'following ●' if following else '○ G follows'}"
        if source.dropped:
            text = f"{source.dropped:,} dropped: too many   {text}"
        new = "[b $background on $primary @click=screen.bottom] $unseen new ↓ [/]   " if unseen else ""
        content = Content.from_markup(f"{new}$text", unseen=f"{unseen:,}", text=text)
        self.query_one("#state", Static).update(content)
