"""What stands beside the list: the parts of the filter, how many records there are, and how many are new."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from screens.logs.record_source import Timeline
from screens.widgets.virtual_rows import VirtualRows

_HINT = "[dim @click=screen.filter]f filter: everything is shown[/]"
_PART = (
    "[on $panel][@click=screen.filter] [dim]$key:[/]$value[/] "
    "[@click=screen.without('{key}')][dim]×[/][/] [/]"
)
_SOUGHT = "[on $panel][@click=screen.search] [dim]/[/]$sought[/] [@click=screen.forget][dim]×[/][/] [/]"


class FilterLine(Input):
    """The line in which a filter is written, or what is searched."""

    GROUP: ClassVar[str] = "Logs"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", id="logs.line-back")]

    purpose = "filter"
    """What the line is for: `filter` or `search`."""

    def action_leave(self) -> None:
        """Leave the line as it was."""
        self.display = False
        self.screen.query_one(VirtualRows).focus()


class Bar(Horizontal):
    """The parts of the filter, which a click takes away, and on the right how many records there are."""

    DEFAULT_CSS = """
    Bar {
        height: 1; padding: 0 1;
        & > #parts { width: 1fr; height: 1; text-wrap: nowrap; link-style: none; link-color: $foreground; }
        & > #state { width: auto; height: 1; color: $foreground-muted; }
    }
    """

    def compose(self) -> ComposeResult:
        """Place both."""
        yield Static(id="parts")
        yield Static(id="state")

    def tell_parts(self, chips: Sequence[tuple[str, str]], sought: str) -> None:
        """Show the parts of a filter, and the text that is searched."""
        parts = [Content.from_markup(_PART.format(key=key), key=key, value=value) for key, value in chips]
        if sought:
            parts.append(Content.from_markup(_SOUGHT, sought=sought))
        self.query_one("#parts", Static).update(
            Content(" ").join(parts) if parts else Content.from_markup(_HINT)
        )

    def tell_state(self, timeline: Timeline, *, live: bool, following: bool) -> None:
        """Say how many records there are, and whether those that come are shown."""
        count = f"{timeline.read():,}"
        if not timeline.whole:
            text = f"reading {count}" if live else ""
        elif timeline.waiting() or timeline.paused:
            text = f"{count} records   ❚❚ paused, {timeline.waiting():,} waiting"
        elif not timeline.follows:
            text = f"{count} records"
        else:
            text = f"{count} records   {'following ●' if following else '○ G follows'}"
        if timeline.missed:
            text = f"{timeline.missed:,} not shown: too many   {text}"
        self.query_one("#state", Static).update(Content(text))


class Pill(Static):
    """How many records came below what is to be seen; a click goes there. Lies over the list."""

    DEFAULT_CSS = """
    Pill {
        layer: above; display: none; dock: bottom; width: auto; height: 1; padding: 0 1;
        background: $primary; color: $background; text-style: bold; link-color: $background; link-style: none;
    }
    """

    def tell(self, unseen: int, below: int) -> None:
        """Say how many, `below` rows above the foot of the screen; none are not told of."""
        self.display = unseen > 0
        said = Content.from_markup("[@click=screen.bottom]$count new ↓[/]", count=f"{unseen:,}")
        self.update(said)
        self.styles.offset = (max(self.screen.size.width - said.cell_length - 5, 0), -2 - below)
