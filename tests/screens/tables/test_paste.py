"""Pasting into the grid."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from textual import events
from textual.app import App

from screens.tables.dialogs import PasteScreen, TextScreen
from screens.tables.grid import MAX_ROWS, TableColumn, cells, targets
from svc_tui.client import SvcError
from tests.screens.tables.tables_tab import Shop, Tables, tables
from tests.support.column_types import TYPES

Snapshot = Callable[[App[Any]], None]


def column(name: str, type: str = "text", *, nullable: bool = True, generated: bool = False) -> TableColumn:
    return TableColumn(
        name, TYPES[type], nullable=nullable, default=None, primary_key=False, note="", generated=generated
    )


def pasted(*names: str, rows: Sequence[Sequence[str | None]] = (), header: bool = False) -> dict[str, Any]:
    """Return a preview of a pasted range."""
    columns = [{"name": name} for name in names]
    return {"count": len(rows), "columns": columns, "rows": rows, "header": header}


COLUMNS = [
    column("id", "integer", nullable=False),
    column("name"),
    column("size", generated=True),
    column("age", "integer"),
]


def test_header_names_select_columns() -> None:
    assert targets(pasted("Age", "what", "name", header=True), COLUMNS, 0) == [COLUMNS[3], None, COLUMNS[1]]


def test_range_without_header_fills_columns_from_cursor() -> None:
    assert targets(pasted("a", "b", "c"), COLUMNS, 1) == [COLUMNS[1], COLUMNS[3], None]


def test_pasted_cells_are_parsed_by_column_type() -> None:
    two = pasted("a", "b", rows=[["1", "7"], [None, None]])
    assert cells(two, [COLUMNS[1], COLUMNS[3]]) == [{"name": "1", "age": 7}, {"name": None, "age": None}]
    assert cells(two, [COLUMNS[0], None]) == [{"id": 1}, {}]
    with pytest.raises(SvcError, match="row 1, age: this is not a whole number"):
        cells(pasted("a", rows=[["x"]]), [COLUMNS[3]])


def test_range_over_row_limit_raises_with_import_hint() -> None:
    with pytest.raises(SvcError) as exc_info:
        cells(pasted() | {"count": MAX_ROWS + 1}, [])
    assert "import" in exc_info.value.hint


async def paste(ui: Tables, text: str) -> None:
    ui.app.post_message(events.Paste(text))
    await ui.pilot.pause()


@pytest.mark.slow
@pytest.mark.anyio
async def test_pasted_range_is_previewed_and_added_as_rows(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await paste(ui, "name\tage\tnote\nDora\t19\tx\nEve\t\ty\n")
        await ui.until(lambda: isinstance(ui.app.screen, PasteScreen))
        snapshot(ui.app)
        await ui.press("n")
        await ui.shows("Dora", "Eve", "2 rows changed")
        assert ui.text.index("Dora") < ui.text.index("Eve")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(people.sql, "select name, age from people where id > 3 order by id")
        assert result == [{"name": "Dora", "age": 19}, {"name": "Eve", "age": None}]


@pytest.mark.slow
@pytest.mark.anyio
async def test_pasted_range_overwrites_cells_in_one_undo_step(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("j", "l")
        await paste(ui, "Rob\t28\nCleopatra\t34\nNew one\t1\n")
        await ui.until(lambda: isinstance(ui.app.screen, PasteScreen))
        await ui.press("o")
        await ui.shows("Rob", "Cleopatra", "New one", "3 rows changed")
        await ui.press("u")
        await ui.hides("Rob")
        assert ui.screen.pending == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_single_pasted_cell_replaces_cursor_cell(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "l")
        await paste(ui, "77")
        await ui.shows("77", "1 row changed")
        await paste(ui, "many")
        await ui.until(lambda: "this is not a whole number" in ui.notifications)


@pytest.mark.slow
@pytest.mark.anyio
async def test_pasted_line_breaks_in_cell_are_preserved(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l")
        await paste(ui, '"one\rtwo"\t9\r')
        await ui.until(lambda: isinstance(ui.app.screen, PasteScreen))
        await ui.press("n", "ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        await ui.press("e")
        await paste(ui, "Lee\rRay")
        await ui.until(lambda: isinstance(ui.app.screen, TextScreen))
        await ui.press("ctrl+s", "ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(people.sql, "select name from people order by id")
        assert [each["name"] for each in result] == ["AnnLee\nRay", "Bob", "Cleo", "one\ntwo"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_paste_of_ten_megabytes_hints_at_import_without_blocking(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l")
        await paste(ui, "a name of some length\t7\n" * 400_000)
        await ui.press("j")
        assert ui.screen.rows.cursor_row == 1
        await ui.until(lambda: "400,000 rows were pasted" in ui.notifications)
