import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from screens.widgets.rows import (
    COLUMN_GAP,
    ListColumn,
    PlacedColumn,
    column_at,
    fit_cell,
    layout_columns,
    line_width,
    merge_empty,
    sanitize,
)

WIDE = "日本語"


def line(text: str, width: int, *, right: bool = False) -> str:
    return "".join(piece for piece, _ in fit_cell(((text, ""),), PlacedColumn(0, width, right)))


@given(st.lists(st.text(max_size=30), max_size=4), st.integers(0, 20), st.booleans())
def test_fit_cell_has_column_width(texts: list[str], width: int, right: bool) -> None:
    pieces = fit_cell(tuple((text, "") for text in texts), PlacedColumn(0, width, right))
    assert sum(cell_len(text) for text, _ in pieces) == width
    kinds = {unicodedata.category(each) for text, _ in pieces for each in text.removesuffix("\u200e")}
    assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("ok", 4, "ok  "),
        ("exactly", 7, "exactly"),
        ("too long", 5, "too …"),
        (WIDE, 6, WIDE),
        (WIDE, 5, "日本…"),
        (WIDE, 4, "日 …"),
        ("two\nlines\there", 14, "two↵lines here"),
        ("\x1b[31mred\x07", 10, "�[31mred� "),
        ("a\u202eb\u2066", 4, "a�b�"),
        ("e\u0301" * 3, 3, "e\u0301" * 3),
        ("", 3, "   "),
        ("x", 0, ""),
    ],
)
def test_fit_cell_truncates_pads_and_sanitizes(text: str, width: int, expected: str) -> None:
    assert line(text, width) == expected


def test_cell_takes_columns_of_empty_and_missing_cells_after_it() -> None:
    placed = [PlacedColumn(0, 4, False), PlacedColumn(6, 5, True), PlacedColumn(13, 7, False)]
    a, b = (("a", ""),), (("b", "dim"),)
    assert list(merge_empty((a, b, a), placed)) == [(0, a, placed[0]), (1, b, placed[1]), (2, a, placed[2])]
    assert list(merge_empty((a, (), b), placed)) == [(0, a, PlacedColumn(0, 11, False)), (2, b, placed[2])]
    assert list(merge_empty((a, b), placed)) == [(0, a, placed[0]), (1, b, PlacedColumn(6, 14, True))]
    assert list(merge_empty(((), (), b), placed)) == [(0, (), PlacedColumn(0, 11, False)), (2, b, placed[2])]
    assert list(merge_empty((), placed)) == list(merge_empty((a,), [])) == []


def test_right_column_aligns_right() -> None:
    assert line("42", 5, right=True) == "   42"


def test_fit_cell_preserves_tones() -> None:
    assert fit_cell((("GET", "bold"), (" /a/long/path", "dim")), PlacedColumn(0, 8, False)) == [
        ("GET", "bold"),
        (" /a/…", "dim"),
    ]


def test_fit_cell_of_five_megabytes_is_fast() -> None:
    assert line("\u0301" * 5_000_000, 10) == line("\u0301" * 100, 10)
    assert sanitize("x" * 5_000_000) == "x" * 5_000_000


def test_growing_columns_share_spare_width() -> None:
    columns = [ListColumn("a", 4), ListColumn("b", 4, grow=True), ListColumn("c", 4, grow=True)]
    placed = layout_columns(columns, 4 * 3 + 2 * COLUMN_GAP + 7)
    assert [column.width for column in placed] == [4, 7, 8]
    assert line_width(placed) == 4 * 3 + 2 * COLUMN_GAP + 7


def test_columns_have_minimum_width_without_room() -> None:
    placed = layout_columns([ListColumn("a", 30), ListColumn("b", 30, grow=True)], 20)
    assert [(column.x, column.width) for column in placed] == [(0, 30), (32, 30)]


def test_no_columns_have_no_width() -> None:
    assert line_width(layout_columns([], 80)) == 0 and column_at((), 5) == 0


def test_column_at_gap_is_previous_column() -> None:
    placed = layout_columns([ListColumn("a", 3), ListColumn("b", 3)], 8)
    assert [column_at(placed, x) for x in (0, 2, 4, 5, 7, 50)] == [0, 0, 0, 1, 1, 1]


def test_right_to_left_text_does_not_move_next_cell() -> None:
    ((text, _), (pad, _)) = fit_cell((("שלום", ""),), PlacedColumn(0, 8, right=False))
    assert text == "שלום\u200e"
    assert cell_len(text + pad) == 8
    assert fit_cell((("Zoë 寿司", ""),), PlacedColumn(0, 8, right=False)) == [("Zoë 寿司", "")]


def widths(columns: list[ListColumn], room: int) -> list[int]:
    return [each.width for each in layout_columns(columns, room)]


def test_spare_width_goes_to_preferred_widths_smallest_first() -> None:
    columns = [
        ListColumn("id", 4),
        ListColumn("name", 8, preferred=12),
        ListColumn("text", 8, preferred=90),
        ListColumn("note", 8, preferred=90),
    ]
    assert widths(columns, 4 + 3 * 8 + 3 * COLUMN_GAP) == [4, 8, 8, 8]
    assert widths(columns, 4 + 3 * 8 + 3 * COLUMN_GAP + 14) == [4, 12, 13, 13]
    assert widths(columns, 4 + 3 * 8 + 3 * COLUMN_GAP + 400) == [4, 12, 90, 90]


def test_remaining_width_goes_to_growing_columns() -> None:
    assert widths([ListColumn("a", 4, preferred=6), ListColumn("b", 4, grow=True)], 30) == [
        6,
        30 - 6 - COLUMN_GAP,
    ]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), min_size=1), st.integers(0, 500))
def test_preferred_widths_are_bounded(bounds: list[tuple[int, int]], room: int) -> None:
    columns = [ListColumn("", width, preferred=preferred_width) for width, preferred_width in bounds]
    got = widths(columns, room)
    least = sum(width for width, _ in bounds) + COLUMN_GAP * (len(bounds) - 1)
    assert sum(got) + COLUMN_GAP * (len(got) - 1) <= max(room, least)
    assert all(
        width <= each <= max(width, preferred_width)
        for each, (width, preferred_width) in zip(got, bounds, strict=True)
    )
