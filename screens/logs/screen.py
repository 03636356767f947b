"""The Logs tab: the timeline of a Project."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult

from screens.console_screen import ConsoleScreen, Tab
from screens.logs.rows import COLUMNS, row
from screens.widgets.row_source import Row
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError

TAIL = 1000


class Records:
    """Records as rows."""

    def __init__(self, documents: Sequence[dict[str, Any]] = ()) -> None:
        self._documents = documents

    def count(self) -> int:
        """Return how many there are."""
        return len(self._documents)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return some of them."""
        return [row(document) for document in self._documents[start : start + n]]


class LogsScreen(ConsoleScreen):
    """The timeline."""

    TAB: ClassVar[Tab] = "logs"
    GROUP: ClassVar[str] = "Logs"

    def body(self) -> ComposeResult:
        """Yield the list."""
        yield VirtualRows(Records(), COLUMNS, empty="nothing has happened yet")

    def restored(self) -> None:
        """Read it again."""
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        try:
            found = await asyncio.to_thread(
                lambda: list(self.link.lines("GET", "/logs", params={"tail": TAIL}))
            )
        except SvcError as error:
            self.tell(error)
        else:
            self.query_one(VirtualRows).show(Records(found))
