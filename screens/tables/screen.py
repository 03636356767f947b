"""The Tables tab: the tables of a Project."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult

from screens.console_screen import ConsoleScreen, Tab
from screens.widgets.columns import Column
from screens.widgets.row_source import Row
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError

COLUMNS = (Column("table", 24, grow=True), Column("kind", 8), Column("rows", 12, right=True))


class Catalog:
    """The tables as rows."""

    def __init__(self, tables: Sequence[dict[str, Any]] = ()) -> None:
        self._tables = tables

    def count(self) -> int:
        """Return how many there are."""
        return len(self._tables)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return some of them."""
        return [
            Row(
                table["name"],
                (((table["name"], ""),), ((table["kind"], "dim"),), ((f"{table['rows']:,}", ""),)),
            )
            for table in self._tables[start : start + n]
        ]


class TablesScreen(ConsoleScreen):
    """The tables."""

    TAB: ClassVar[Tab] = "tables"
    GROUP: ClassVar[str] = "Tables"

    def body(self) -> ComposeResult:
        """Yield the list."""
        yield VirtualRows(Catalog(), COLUMNS, empty="there are no tables yet")

    def restored(self) -> None:
        """Read them again."""
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        try:
            found = await self.link.call("GET", "/tables")
        except SvcError as error:
            self.tell(error)
        else:
            self.query_one(VirtualRows).show(Catalog(found["tables"]))
