"""The line about the fleet on the Board."""

from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from screens.board.cards import Line, Signs
from screens.board.fleet import BoardFleet, fleet_details, fleet_line
from screens.project_client import ProjectClient
from screens.widgets.component_styles import to_content
from svc_tui.client import SvcError

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
        Binding("enter", "open_nodes", "Open", id="board.open-nodes"),
        Binding("k,up,tab,shift+tab", "leave", "Up", show=False, id="board.leave-nodes"),
    ]

    class Opened(Message):
        """The line was opened."""

    class Left(Message):
        """The selection returns to the diagram."""

    class Updated(Message):
        """The state of the fleet was fetched."""

    def __init__(self, client: ProjectClient, signs: Signs) -> None:
        super().__init__()
        self._client, self._signs = client, signs
        self._fetching = False
        self.fleet: BoardFleet | None = None
        """The fleet that serves the project."""

    def on_mount(self) -> None:
        """Start polling a service."""
        self._timer = self.set_interval(POLL_SECONDS, self.fetch, pause=self._client.info.kind != "service")

    def pause(self) -> None:
        """Stop polling while another screen is shown."""
        self._timer.pause()

    def resume(self) -> None:
        """Resume polling."""
        if self._client.info.kind == "service":
            self._timer.resume()
            self.fetch()

    def on_resize(self) -> None:
        """Adapt to the new width."""
        self._draw()

    @work(group="fleet")
    async def fetch(self) -> None:
        """Fetch and show the state of the fleet."""
        if self._client.info.kind != "service" or self._client.state != "live" or self._fetching:
            return
        self._fetching = True
        try:
            document = (await self._client.call("GET", "/fleet"))["fleet"]
        except SvcError:  # The Board shows errors, and the next poll may succeed.
            return
        finally:
            self._fetching = False
        self.fleet = BoardFleet.from_json(document) if document is not None else None
        self.display = self.fleet is not None
        self._draw()
        self.post_message(self.Updated())

    def _draw(self) -> None:
        if self.fleet is not None:
            room = self.screen.size.width - PADDING
            self.update(to_content([fleet_line(self.fleet, room, self._signs)]))

    def details(self, room: int) -> tuple[str, list[Line]] | None:
        """Return title and lines about all nodes."""
        return fleet_details(self.fleet, room, self._signs) if self.fleet is not None else None

    def action_open_nodes(self) -> None:
        """Open the details."""
        self.post_message(self.Opened())

    def action_leave(self) -> None:
        """Return to the diagram."""
        self.post_message(self.Left())

    def on_click(self, event: Click) -> None:
        """Open the details."""
        event.stop()
        self.action_open_nodes()
