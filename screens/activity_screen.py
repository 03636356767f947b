"""Screen with the last actions of the Console."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from screens.activity import ActivityLog
from screens.console_screen import StopWorkersFirst
from screens.key_footer import KeyFooter
from screens.widgets.columns import LINE_COLUMNS, TextLines, wrap_lines
from screens.widgets.virtual_list import GUTTER, VirtualRows


class ActivityScreen(StopWorkersFirst, Screen[None]):
    """Shows the actions, newest first."""

    GROUP: ClassVar[str] = "Activity"
    DEFAULT_CSS = """
    ActivityScreen { background: $background; }
    ActivityScreen > #title { height: 1; background: $panel; padding: 0 1; text-style: bold; }
    ActivityScreen > VirtualRows { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,at", "dismiss", "Back", id="activity.back"),
    ]

    def __init__(self, activity: ActivityLog) -> None:
        super().__init__()
        self._activity = activity

    def compose(self) -> ComposeResult:
        """Compose the title, the list and the footer."""
        yield Static("Changes and messages, newest first", id="title")
        yield VirtualRows(TextLines(), LINE_COLUMNS, head=False, empty="no changes or messages yet")
        yield KeyFooter()

    def on_resize(self) -> None:
        """Lay out the actions for the new width."""
        lines = wrap_lines(self._activity.lines(), self.size.width - 2 * GUTTER)
        self.query_one(VirtualRows).set_source(TextLines(lines))

    async def action_dismiss(self, result: None = None) -> None:
        """Close the screen."""
        self.dismiss()
