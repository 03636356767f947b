from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App

from screens.tables.cells import DEFAULT_MAX_WIDTH, MAX_WIDTH, measure_columns, piece
from tests.screens.tables.tables_tab import Shop, tables
from tests.support.column_types import TYPES

Snapshot = Callable[[App[Any]], None]


def width(type: str, *values: Any, title: str = "t") -> tuple[int, int, int]:
    (column,) = measure_columns([title], [TYPES[type]], [[piece(value)[0] for value in values]])
    return column.width, column.preferred, column.comfortable


def test_column_width_fits_texts_and_title() -> None:
    assert width("text", "x" * 15, "y", None) == (15, 15, 15)
    assert width("text", "x", title="a title that is longer") == (22, 22, 22)
    assert width("integer", 1, 2, title="id") == (2, 2, 8)
    assert width("timestamp", "2026-11-21T09:14:03.120Z") == (24, 24, 24)


def test_long_text_has_bounded_preferred_width() -> None:
    assert width("text", "x" * 60, "y") == (DEFAULT_MAX_WIDTH, 60, 60)
    assert width("text", "x" * 5_000_000) == (DEFAULT_MAX_WIDTH, MAX_WIDTH, MAX_WIDTH)
    assert width("text", {"size": 5_000_000, "text": "x" * 300}) == (DEFAULT_MAX_WIDTH, MAX_WIDTH, MAX_WIDTH)


def test_wide_characters_count_two_cells() -> None:
    assert width("text", "日本語" * 4) == (24, 24, 24)
    assert width("text", "a\tb\n\0") == width("text", "日a\n\0") == (5, 5, 12)


def test_width_without_rows_depends_on_type() -> None:
    assert width("timestamp") == (24, 24, 24)
    assert width("text", title="name") == (16, 16, 16)


@pytest.mark.slow
@pytest.mark.anyio
async def test_columns_share_width_by_need_and_do_not_move(shop: Shop, snapshot: Snapshot) -> None:
    shop.sql("create table notes (id integer primary key, who text, what text, mood text)")
    shop.sql(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)"
        " insert into notes select i, 'Ann',"
        " 'a rather long sentence ' || i || iif(i > 60, ', and more', ''), 'fine' from n"
    )
    async with tables(shop) as ui:
        snapshot(ui.app)
        head = ui.text.splitlines()[2]
        await ui.press("G")
        await ui.shows("a rather long sentence 500, and more")
        assert ui.text.splitlines()[2] == head
        await ui.press("g", "l", "l", "s", "s")
        await ui.shows("sorted by", "a rather long sentence 99, and more")
        assert ui.text.splitlines()[2] == head
